package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Method is one function of a service, made by Unary, OneWay, Raw, or ServerStream and its like. Functions run on the pool of their service, where
// they may block. Under DispatchDirect they run on the loop, where they must not. ctx ends with the call: when the
// function returns, at its deadline, when the client cancels it, or with the connection. CallFrom tells about the call.
//
// A returned error becomes the status of the response: a *Status or a *frame.StatusError names it, the end of a context
// becomes DEADLINE_EXCEEDED or CANCELLED, and everything else APP_ERROR (by gRPC: UNKNOWN) with its text. BUSY and UNAVAILABLE say that nothing was
// executed. A panic becomes INTERNAL; its text stays in the log.
type Method struct {
	name   string
	oneWay bool
	safe   bool // NoSideEffects
	takes  [codecs]bool
	types  [2]string // of request and response, for List; "" for raw bodies and for none

	kind   StreamKind // 0 unless the method streams
	stream func(ctx context.Context, s Stream) error
	raw    func(ctx context.Context, body []byte) ([]byte, error)
	newReq func() any // returns a pointer; nil if the method has no parameter

	decoding bool // the request is a function that decodes the body
	call     func(ctx context.Context, req any) (any, error)
}

// Name returns the method's name.
func (m Method) Name() string { return m.name }

// NoSideEffects returns the method as one that changes nothing, such as a search: pages in browsers may call it by GET, and
// caches may keep the answer for as long as its Cache-Control says. It is NO_SIDE_EFFECTS of .proto files.
func (m Method) NoSideEffects() Method {
	m.safe = true
	return m
}

// Streams returns which sides of a call send more than one message, 0 for neither.
func (m Method) Streams() StreamKind { return m.kind }

// IsOneWay reports whether the method has no response.
func (m Method) IsOneWay() bool { return m.oneWay }

// Codecs returns the codecs in which the method can be called.
func (m Method) Codecs() []Codec {
	var list []Codec
	for c, ok := range m.takes {
		if ok {
			list = append(list, Codec(c))
		}
	}
	return list
}

// Unary returns a method with a response. The method takes JSON; also protobuf if Req and Resp are messages, whose JSON
// is then protobuf's; and raw bodies if both are []byte. If no request is needed, fn takes a *struct{}, or a message
// without fields. Do not return nil without an error. The client is then told INTERNAL, because it could not tell nothing
// from an empty response.
func Unary[Req, Resp any](name string, fn func(ctx context.Context, req *Req) (*Resp, error)) Method {
	m := Method{name: name, takes: both(codecsOf[Req](), codecsOf[Resp]()), types: [2]string{payload.TypeName(new(Req)), payload.TypeName(new(Resp))}}
	if fn == nil {
		return m
	}
	return calling(m, func(ctx context.Context, req *Req) (any, error) {
		resp, err := fn(ctx, req)
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// OneWay returns a method without a response. A client may call it for one, too: the response is then empty and says that
// fn has returned nil. Codecs are those of Unary.
func OneWay[Req any](name string, fn func(ctx context.Context, req *Req) error) Method {
	m := Method{name: name, oneWay: true, takes: codecsOf[Req](), types: [2]string{payload.TypeName(new(Req))}}
	if fn == nil {
		return m
	}
	return calling(m, func(ctx context.Context, req *Req) (any, error) { return nil, fn(ctx, req) })
}

// calling returns m as a method that calls fn with a *Req.
func calling[Req any](m Method, fn func(ctx context.Context, req *Req) (any, error)) Method {
	m.newReq = func() any { return new(Req) }
	m.call = func(ctx context.Context, req any) (any, error) {
		r, ok := req.(*Req)
		if !ok {
			return nil, wrongRequest(req, r)
		}
		return fn(ctx, r)
	}
	return m
}

// Raw returns a method that is given the body as it came, and returns the body of the response. The method takes every
// codec, by gRPC also those that only fn knows; CallFrom tells which one it is, and CodecRaw of the latter. body is valid until fn returns; the result may be part of it, and is copied.
func Raw(name string, fn func(ctx context.Context, body []byte) ([]byte, error)) Method {
	return Method{name: name, takes: [codecs]bool{true, true, true}, raw: fn}
}

// Decoding returns a method whose request is of a type that only fn knows: it calls decode, once, with a pointer, and
// returns the response. The method takes every codec that its values take. Interceptors see decode as the request.
func Decoding(name string, fn func(ctx context.Context, decode func(msg any) error) (any, error)) Method {
	m := Method{name: name, takes: [codecs]bool{true, true, true}}
	if fn != nil {
		m.decoding = true
		m.call = func(ctx context.Context, req any) (any, error) {
			decode, ok := req.(func(msg any) error)
			if !ok {
				return nil, wrongRequest(req, decode)
			}
			return fn(ctx, decode)
		}
	}
	return m
}

// errWrongRequest is an interceptor's mistake, which the client is told as INTERNAL.
var errWrongRequest = errors.New("rpc: an interceptor passed on a request of another type")

// errNoResponse answers a call whose method or interceptor returned neither a response nor an error.
var errNoResponse = &frame.StatusError{Status: frame.StatusInternal, Message: "the method returned nil and no error"}

func wrongRequest(got, want any) error {
	return fmt.Errorf("%w: %T, want %T", errWrongRequest, got, want)
}

// codecsOf returns the codecs that can carry a T.
func codecsOf[T any]() [codecs]bool {
	_, isMessage := any((*T)(nil)).(proto.Message)
	_, isBytes := any((*T)(nil)).(*[]byte)
	return [codecs]bool{CodecRaw: isBytes, CodecJSON: true, CodecProtobuf: isMessage}
}

func both(a, b [codecs]bool) (c [codecs]bool) {
	for i := range c {
		c[i] = a[i] && b[i]
	}
	return c
}
