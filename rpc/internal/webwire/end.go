package webwire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// Field is a header field, its name in lower case.
type Field struct{ Name, Value string }

// End is the end of a call, out of the trailer that gRPC has for it.
type End struct {
	Code       uint32
	Message    string
	Details    []grpcwire.Any
	RetryAfter int // seconds; 0 = no advice
	Metadata   []Field
}

// ParseEnd reads a trailer of gRPC.
func ParseEnd(trailer []Field) (e End) {
	for _, f := range trailer {
		switch f.Name {
		case "grpc-status":
			n, err := strconv.ParseUint(f.Value, 10, 32)
			if err != nil {
				n = unknown
			}
			e.Code = uint32(n)
		case "grpc-message":
			e.Message = grpcwire.UnescapeMessage(f.Value)
		case "grpc-status-details-bin":
			if b, err := grpcwire.DecodeBinary(f.Value); err == nil {
				s, _ := grpcwire.ParseStatus([]byte(b)) // up to what is no status
				e.Details = s.Details
			}
		case "grpc-retry-pushback-ms":
			ms, _ := strconv.Atoi(f.Value) // no number is no advice
			e.RetryAfter = (ms + 999) / 1000
		default:
			e.Metadata = append(e.Metadata, f)
		}
	}
	return e
}

// Trailer returns the last message of a response by gRPC-Web: a header section in the form of HTTP/1.1.
func Trailer(trailer []Field) []byte {
	b := grpcwire.AppendPrefix(nil)
	for _, f := range trailer {
		b = append(append(append(append(b, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	grpcwire.Finish(b, 0, false)
	b[0] = flagTrailer
	return b
}

// Flags of the last message.
const (
	flagEnd     = 0x02
	flagTrailer = 0x80
)

type detail struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type errorBody struct {
	Code    string   `json:"code"`
	Message string   `json:"message,omitempty"`
	Details []detail `json:"details,omitempty"`
}

type endBody struct {
	Error    *errorBody          `json:"error,omitempty"`
	Metadata map[string][]string `json:"metadata,omitempty"`
}

func (e *End) body() *errorBody {
	b := &errorBody{Code: codeName(e.Code), Message: e.Message}
	for _, d := range e.Details {
		_, name, _ := strings.Cut(d.TypeURL, "/")
		b.Details = append(b.Details, detail{name, base64.RawStdEncoding.EncodeToString(d.Value)})
	}
	return b
}

// Error returns the body of a unary response by Connect that is an error.
func (e *End) Error() []byte { return encode(e.body()) }

// Last returns the last message of a stream by Connect.
func (e *End) Last() []byte {
	var b endBody
	if e.Code != 0 {
		b.Error = e.body()
	}
	for _, f := range e.Metadata {
		if b.Metadata == nil {
			b.Metadata = make(map[string][]string)
		}
		b.Metadata[f.Name] = append(b.Metadata[f.Name], f.Value)
	}
	msg := append(grpcwire.AppendPrefix(nil), encode(b)...)
	grpcwire.Finish(msg, 0, false)
	msg[0] = flagEnd
	return msg
}

func encode(v any) []byte {
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	_ = w.Encode(v) // strings and slices, into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
