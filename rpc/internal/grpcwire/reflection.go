package grpcwire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// ReflectionService is the interface of the reflection service (grpc/reflection/v1/reflection.proto), and
// ReflectionAlphaService that of its draft, whose messages are the same.
const (
	ReflectionService      = "grpc.reflection.v1.ServerReflection"
	ReflectionAlphaService = "grpc.reflection.v1alpha.ServerReflection"
)

// Question is what a ServerReflectionRequest asks, by the number of its field there.
type Question protowire.Number

// The questions.
const (
	FileByName      Question = 3
	FileBySymbol    Question = 4
	FileByExtension Question = 5
	ExtensionsOf    Question = 6
	ListServices    Question = 7
)

// ReflectionRequest is a ServerReflectionRequest.
type ReflectionRequest struct {
	Question  Question
	Text      string // a file, a symbol or a type
	Extension int32  // of FileByExtension
	raw       []byte
}

// ParseReflectionRequest reads a ServerReflectionRequest.
func ParseReflectionRequest(b []byte) (*ReflectionRequest, error) {
	r := &ReflectionRequest{raw: append([]byte(nil), b...)}
	err := eachField(b, func(num protowire.Number, _ uint64, bytes []byte) error {
		switch q := Question(num); q {
		case FileByName, FileBySymbol, ExtensionsOf, ListServices:
			r.Question, r.Text = q, string(bytes)
		case FileByExtension:
			r.Question = q
			return eachField(bytes, func(num protowire.Number, varint uint64, bytes []byte) error {
				switch num {
				case 1:
					r.Text = string(bytes)
				case 2:
					r.Extension = int32(varint)
				}
				return nil
			})
		}
		return nil
	})
	return r, err
}

// ReflectionResponse is a ServerReflectionResponse: files, extension numbers, services or an error.
type ReflectionResponse struct {
	Files      [][]byte // FileDescriptorProtos
	Base       string   // with Extensions, the type that they extend
	Extensions []int32
	Services   []string
	Code       uint32 // of an error
	Message    string
}

// Fields of ServerReflectionResponse.
const (
	responseRequest    = 2
	responseFiles      = 4
	responseExtensions = 5
	responseServices   = 6
	responseError      = 7
)

// Append appends the answer to req.
func (r *ReflectionResponse) Append(b []byte, req *ReflectionRequest) []byte {
	b = appendMessage(b, responseRequest, req.raw)
	var m []byte
	switch {
	case r.Code != 0:
		m = protowire.AppendVarint(protowire.AppendTag(m, 1, protowire.VarintType), uint64(r.Code))
		m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), r.Message)
		return appendMessage(b, responseError, m)
	case req.Question == ListServices:
		for _, s := range r.Services {
			m = appendMessage(m, 1, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), s))
		}
		return appendMessage(b, responseServices, m)
	case req.Question == ExtensionsOf:
		m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), r.Base)
		for _, n := range r.Extensions {
			m = protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), uint64(n))
		}
		return appendMessage(b, responseExtensions, m)
	}
	for _, f := range r.Files {
		m = appendMessage(m, 1, f)
	}
	return appendMessage(b, responseFiles, m)
}

func appendMessage(b []byte, num protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}
