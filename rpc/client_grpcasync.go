package rpc

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// encoded is a request that was encoded before its call is made, because its owner may change it by then.
type encoded struct {
	codec payload.Codec
	kind  string
	body  []byte
}

// ignored is the response of a call that nobody waits for. It is not decoded.
type ignored struct{}

// background makes a call on a goroutine of its own and returns at once. The request is encoded before, unless interceptors are to see it. The error says why
// there is no call.
func (cl *GRPCClient) background(key Key, method string, req any, o *callOptions, call func(req any)) error {
	refuse := func(err error) error {
		return &Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: err}
	}
	limit := cl.o.MaxAsync
	begun := false
	defer func() {
		if !begun { // the value's own marshaller may have panicked
			cl.async.Add(-1)
		}
	}()
	if n := cl.async.Add(1); n > int64(limit) {
		return refuse(&limitError{kind: ErrClientFull, what: "calls that nobody waits for have not ended", n: int(n - 1), limit: limit, option: "GRPCOptions.MaxAsync"})
	}
	if err := key.Validate(); err != nil {
		return refuse(err)
	}
	if cl.closed.Load() {
		return refuse(errClosed)
	}
	if len(cl.o.Interceptors) == 0 && req != nil {
		var err error
		if req, err = encodeNow(o, req); err != nil {
			return refuse(encodeError{err})
		}
	}
	begun = true
	go func() {
		defer cl.async.Add(-1)
		call(req)
	}()
	return nil
}

// encodeNow returns a request as it is sent.
func encodeNow(o *callOptions, req any) (any, error) {
	codec, kind := codecFor(o, req)
	b, err := codec.Append(nil, req)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong
	}
	return &encoded{codec, kind, b}, nil
}

// invokeGRPCAsync is InvokeAsync by a GRPCClient.
func invokeGRPCAsync[Resp any](ctx context.Context, cl *GRPCClient, key Key, method string, req any, o callOptions) *Future[Resp] {
	f := &Future[Resp]{f: future{owner: cl}}
	ctx, abort := context.WithCancelCause(ctx)
	f.f.abort = abort
	err := cl.background(key, method, req, &o, func(req any) {
		err := error(&Error{Service: key.String(), Method: method, Err: &causeError{kinds: []error{ErrInternal}, text: "an interceptor or the response's decoder panicked"}})
		cl.run(func() { f.resp, err = invokeGRPC[Resp](ctx, cl, key, method, req, o) })
		abort(nil)
		f.f.complete(err)
	})
	if err != nil {
		abort(nil)
		f.f.complete(err)
	}
	return f
}

// errNoWritten is the error of Send with WaitWritten by gRPC.
var errNoWritten = errors.New("rpc: WaitWritten is for the frame protocol: by gRPC the answer tells more, see Invoke")

// sendGRPC is Send by a GRPCClient.
func sendGRPC(ctx context.Context, cl *GRPCClient, key Key, method string, req any, o callOptions) error {
	var err error
	switch {
	case o.waitWritten:
		err = errNoWritten
	case ctx.Err() != nil:
		err = contextCause(ctx)
	}
	if err != nil {
		return &Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: err}
	}
	if by, ok := ctx.Deadline(); ok {
		if left := max(time.Until(by), 1); o.timeout <= 0 || left < o.timeout {
			o.timeout = left
		}
	}
	ctx = context.WithoutCancel(ctx) // its caller goes on, and may end it
	return cl.background(key, method, req, &o, func(req any) {
		info := &CallInfo{Key: key, Method: method, Codec: o.codec, OneWay: true, Metadata: o.meta}
		var err error
		cl.run(func() {
			_, err = intercept(ctx, cl.o.Interceptors, info, req, func(ctx context.Context, req any) (any, error) {
				o := o
				o.meta = info.Metadata
				return attemptGRPC[ignored](ctx, cl, key, method, req, o)
			})
		})
		if err != nil {
			cl.warn(&cl.logs.sends, "rpc: a request of Send has failed", "service", key.String(), "method", method, "err", err)
		}
	})
}

// onLoop implements futures.
func (cl *GRPCClient) onLoop() bool { return cl.o.Transport.OnLoop() }

// after implements futures: the function has a goroutine of its own.
func (cl *GRPCClient) after(_ *future, fn func()) { go cl.run(fn) }

// run implements futures.
func (cl *GRPCClient) run(fn func()) {
	defer func() {
		if v := recover(); v != nil {
			cl.warn(&cl.logs.panics, "rpc: panic in a callback", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// warn logs a line that others can cause at will, as often as s lets it through.
func (cl *GRPCClient) warn(s *sample.Seldom, msg string, args ...any) {
	if ok, held := s.Allow(logInterval); ok {
		cl.o.Logger.Warn(msg, append(args, "held_back", held)...)
	}
}
