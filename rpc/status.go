package rpc

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// Code is the outcome of a call by gRPC, by its number there.
type Code uint32

// The codes, as the gRPC project defines them.
const (
	CodeOK Code = iota
	CodeCanceled
	CodeUnknown
	CodeInvalidArgument
	CodeDeadlineExceeded
	CodeNotFound
	CodeAlreadyExists
	CodePermissionDenied
	CodeResourceExhausted
	CodeFailedPrecondition
	CodeAborted
	CodeOutOfRange
	CodeUnimplemented
	CodeInternal
	CodeUnavailable
	CodeDataLoss
	CodeUnauthenticated
	codes
)

var codeNames = [codes]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String returns the code's name in the protocol, or its number.
func (c Code) String() string {
	if c < codes {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE %d", uint32(c))
}

// Status is an error with a code of gRPC. A method returns one to choose the answer to its client. A client by the frame
// protocol is told APP_ERROR with the code's name in the text; CANCELLED, DEADLINE_EXCEEDED, INTERNAL and UNAUTHENTICATED
// are statuses of that protocol, too.
type Status struct {
	Code    Code // CodeOK in an error is CodeUnknown
	Message string
	Details []proto.Message // what else the client is told, not by the frame protocol; on a client an *anypb.Any if the program lacks its type

	// RetryAfter is when the client may try again, its grpc-retry-pushback-ms; 0 = no advice.
	RetryAfter time.Duration
}

// Statusf returns a *Status with a formatted message.
func Statusf(code Code, format string, args ...any) *Status {
	return &Status{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (s *Status) Error() string {
	if s.Message == "" {
		return "rpc: " + s.Code.String()
	}
	return "rpc: " + s.Code.String() + ": " + s.Message
}

// code returns the code that travels.
func (s *Status) code() Code {
	if s.Code == CodeOK {
		return CodeUnknown
	}
	return s.Code
}

// details returns the google.rpc.Status of a status that has details, nil otherwise.
func (s *Status) details() ([]byte, error) {
	if len(s.Details) == 0 {
		return nil, nil
	}
	w := grpcwire.Status{Code: uint32(s.code()), Message: s.Message}
	for _, m := range s.Details {
		a, err := grpcwire.Pack(m)
		if err != nil {
			return nil, fmt.Errorf("rpc: a detail %T of a status: %w", m, err)
		}
		w.Details = append(w.Details, a)
	}
	return w.Append(nil), nil
}

// unpack takes the details of a google.rpc.Status, up to what is none.
func (s *Status) unpack(b []byte) {
	w, _ := grpcwire.ParseStatus(b)
	for _, a := range w.Details {
		s.Details = append(s.Details, a.Unpack())
	}
}

// framed returns what a client by the frame protocol is told of s.
func (s *Status) framed() *frame.StatusError {
	e := &frame.StatusError{Status: frame.StatusAppError, Message: s.Message, RetryAfter: s.RetryAfter}
	switch s.code() {
	case CodeCanceled:
		e.Status = frame.StatusCanceled
	case CodeDeadlineExceeded:
		e.Status = frame.StatusDeadlineExceeded
	case CodeInternal:
		e.Status = frame.StatusInternal
	case CodeUnauthenticated:
		e.Status = frame.StatusUnauthenticated
	default:
		e.Message = strings.TrimPrefix(s.Error(), "rpc: ")
	}
	return e
}

// codeOf has the code of each status of the frame protocol that a method may return.
var codeOf = map[frame.Status]Code{
	frame.StatusBadRequest:       CodeInvalidArgument,
	frame.StatusNotFound:         CodeNotFound,
	frame.StatusAppError:         CodeUnknown,
	frame.StatusInternal:         CodeInternal,
	frame.StatusBusy:             CodeResourceExhausted,
	frame.StatusDeadlineExceeded: CodeDeadlineExceeded,
	frame.StatusCanceled:         CodeCanceled,
	frame.StatusUnavailable:      CodeUnavailable,
	frame.StatusTooLarge:         CodeResourceExhausted,
	frame.StatusUnauthenticated:  CodeUnauthenticated,
}

// statusOf returns what a client by gRPC is told of an error of a method, nil for none.
func statusOf(err error) *Status {
	if err == nil {
		return nil
	}
	if s, ok := errors.AsType[*Status](err); ok {
		return s
	}
	if f, ok := errors.AsType[*frame.StatusError](err); ok {
		code, ok := codeOf[f.Status]
		if !ok {
			code = CodeUnknown
		}
		return &Status{Code: code, Message: f.Message, RetryAfter: f.RetryAfter}
	}
	if s := foreignStatus(err); s != nil {
		return s
	}
	if large, ok := errors.AsType[*grpcwire.TooLargeError](err); ok {
		return &Status{Code: CodeResourceExhausted, Message: large.Error()}
	}
	s := &Status{Code: CodeUnknown, Message: err.Error()}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		s.Code = CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		s.Code = CodeCanceled
	}
	return s
}

// foreignStatus returns the status of an error of package google.golang.org/grpc/status, which a method that was written
// for grpc-go returns; nil for other errors. The error has a method GRPCStatus, and its result a method Proto, which returns
// a google.rpc.Status. They are called by name, because their types are not in the module graph.
func foreignStatus(err error) *Status {
	for ; err != nil; err = errors.Unwrap(err) {
		if m, ok := protoStatus(err); ok {
			fields := m.ProtoReflect().Descriptor().Fields()
			s := &Status{Code: CodeUnknown, Message: err.Error()}
			if f := fields.ByNumber(1); f != nil && f.Kind() == protoreflect.Int32Kind {
				s.Code = Code(m.ProtoReflect().Get(f).Int())
			}
			if f := fields.ByNumber(2); f != nil && f.Kind() == protoreflect.StringKind {
				s.Message = m.ProtoReflect().Get(f).String()
			}
			if f := fields.ByNumber(3); f != nil && f.IsList() && m.ProtoReflect().Get(f).List().Len() > 0 {
				b, _ := proto.Marshal(m) // what does not encode has no details
				s.unpack(b)
			}
			return s
		}
	}
	return nil
}

// protoStatus returns err.GRPCStatus().Proto() if there is such a thing.
func protoStatus(err error) (proto.Message, bool) {
	get := reflect.ValueOf(err).MethodByName("GRPCStatus")
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return nil, false
	}
	s := get.Call(nil)[0]
	if s.Kind() != reflect.Pointer || s.IsNil() {
		return nil, false
	}
	get = s.MethodByName("Proto")
	if !get.IsValid() || get.Type().NumIn() != 0 || get.Type().NumOut() != 1 {
		return nil, false
	}
	m, ok := get.Call(nil)[0].Interface().(proto.Message)
	return m, ok && m.ProtoReflect().IsValid()
}
