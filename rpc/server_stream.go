package rpc

import (
	"context"

	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// ServerStream returns a method that answers one request with any number of responses. Codecs are those of Unary. Methods
// that stream are called by gRPC; by the frame protocol they are answered BAD_REQUEST.
//
// The function runs on the pool of its service. While it waits in Send or Recv, and from its first Send on, others have its
// worker; executor.Options.Parked bounds how many functions may wait so.
func ServerStream[Req, Resp any](name string, fn func(ctx context.Context, req *Req, out *Sender[Resp]) error) Method {
	m := streaming[Req, Resp](name, ServerStreams)
	if fn != nil {
		m.stream = func(ctx context.Context, s Stream) error {
			req := new(Req)
			if err := s.Recv(req); err != nil {
				return err
			}
			return fn(ctx, req, &Sender[Resp]{s})
		}
	}
	return m
}

// ClientStream returns a method that takes any number of requests and answers with one response. Otherwise it is like
// ServerStream.
func ClientStream[Req, Resp any](name string, fn func(ctx context.Context, in *Receiver[Req]) (*Resp, error)) Method {
	m := streaming[Req, Resp](name, ClientStreams)
	if fn != nil {
		m.stream = func(ctx context.Context, s Stream) error {
			resp, err := fn(ctx, &Receiver[Req]{s})
			switch {
			case err != nil:
				return err
			case resp == nil:
				return errNoResponse
			}
			return s.Send(resp)
		}
	}
	return m
}

// BidiStream returns a method that takes and sends any number of messages, in any order. Otherwise it is like ServerStream.
func BidiStream[Req, Resp any](name string, fn func(ctx context.Context, in *Receiver[Req], out *Sender[Resp]) error) Method {
	m := streaming[Req, Resp](name, BothStream)
	if fn != nil {
		m.stream = func(ctx context.Context, s Stream) error { return fn(ctx, &Receiver[Req]{s}, &Sender[Resp]{s}) }
	}
	return m
}

// Streaming returns a method whose messages are of any type: fn knows what to give to Recv and Send. The method takes every
// codec; values that are []byte are messages of protobuf as they are. Otherwise it is like ServerStream.
func Streaming(name string, kind StreamKind, fn func(ctx context.Context, s Stream) error) Method {
	return Method{name: name, kind: kind, stream: fn, takes: [codecs]bool{true, true, true}}
}

func streaming[Req, Resp any](name string, kind StreamKind) Method {
	return Method{name: name, kind: kind, takes: both(codecsOf[Req](), codecsOf[Resp]()), types: [2]string{payload.TypeName(new(Req)), payload.TypeName(new(Resp))}}
}
