package grpcwire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Status is a google.rpc.Status, the content of grpc-status-details-bin.
type Status struct {
	Code    uint32
	Message string
	Details []Any
}

// Any is a google.protobuf.Any.
type Any struct {
	TypeURL string
	Value   []byte
}

// typePrefix is what precedes the full name of a message in its type URL.
const typePrefix = "type.googleapis.com/"

// Pack returns m as an Any. What is one already stays as it is.
func Pack(m proto.Message) (Any, error) {
	if a, ok := m.(*anypb.Any); ok {
		return Any{a.GetTypeUrl(), a.GetValue()}, nil
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return Any{}, err //nolint:wrapcheck // the caller names the message
	}
	return Any{typePrefix + string(m.ProtoReflect().Descriptor().FullName()), b}, nil
}

// Unpack returns the message in a, or a itself if the program does not have its type or it is none.
func (a Any) Unpack() proto.Message {
	whole := &anypb.Any{TypeUrl: a.TypeURL, Value: a.Value}
	if m, err := whole.UnmarshalNew(); err == nil {
		return m
	}
	return whole
}

// Fields of google.rpc.Status and google.protobuf.Any.
const (
	statusCode    = 1
	statusMessage = 2
	statusDetail  = 3
	anyType       = 1
	anyValue      = 2
)

// Append appends the status in protobuf's encoding.
func (s *Status) Append(b []byte) []byte {
	if s.Code != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, statusCode, protowire.VarintType), uint64(s.Code))
	}
	if s.Message != "" {
		b = protowire.AppendString(protowire.AppendTag(b, statusMessage, protowire.BytesType), s.Message)
	}
	for _, d := range s.Details {
		var a []byte
		a = protowire.AppendString(protowire.AppendTag(a, anyType, protowire.BytesType), d.TypeURL)
		a = protowire.AppendBytes(protowire.AppendTag(a, anyValue, protowire.BytesType), d.Value)
		b = protowire.AppendBytes(protowire.AppendTag(b, statusDetail, protowire.BytesType), a)
	}
	return b
}

var errStatus = errors.New("bytes that are no google.rpc.Status")

// ParseStatus is the opposite of Append.
func ParseStatus(b []byte) (s Status, err error) {
	err = eachField(b, func(num protowire.Number, varint uint64, bytes []byte) error {
		switch num {
		case statusCode:
			s.Code = uint32(varint)
		case statusMessage:
			s.Message = string(bytes)
		case statusDetail:
			var a Any
			err := eachField(bytes, func(num protowire.Number, _ uint64, bytes []byte) error {
				switch num {
				case anyType:
					a.TypeURL = string(bytes)
				case anyValue:
					a.Value = append([]byte(nil), bytes...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			s.Details = append(s.Details, a)
		}
		return nil
	})
	return s, err
}

// eachField calls f for each field of a message.
func eachField(b []byte, f func(num protowire.Number, varint uint64, bytes []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errStatus
		}
		b = b[n:]
		var varint uint64
		var bytes []byte
		switch typ {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errStatus
		}
		b = b[n:]
		if err := f(num, varint, bytes); err != nil {
			return err
		}
	}
	return nil
}
