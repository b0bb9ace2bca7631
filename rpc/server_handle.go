package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// target is a method that a port exports, and the Tag of the frames that call it.
type target struct {
	reg    *registration
	method *Method
	pool   *executor.Pool // nil = the loop
}

// targetOf returns the method that a request was routed to, nil for none.
func targetOf(f *frame.Frame) *target {
	switch t := f.Tag.(type) {
	case *target:
		return t
	case *tracedTarget:
		return t.target
	}
	return nil
}

// route reads from the prefix which method a request calls, and returns the pool that runs it. Loop only.
func (p *port) route(f *frame.Frame) (*executor.Pool, error) {
	switch f.Op() {
	case frame.Call, frame.OneWay:
	case frame.Echo:
		return p.place(p.pool), nil
	default:
		return nil, &frame.StatusError{Status: frame.StatusNotFound, Message: fmt.Sprintf("operation %v is not served", f.Op())}
	}
	head, err := payload.ParsePrefix(f.Payload)
	if err != nil {
		return nil, badRequest(err)
	}
	t := (*p.table.Load())[string(head.Key)][string(head.Method)]
	switch {
	case t == nil:
		return nil, p.notFound(&head)
	case t.method.stream != nil:
		return nil, badRequest(fmt.Errorf("rpc: method %q streams: call it by gRPC", t.method.name))
	case !t.method.takes[head.Codec]:
		return nil, badRequest(fmt.Errorf("rpc: method %q takes no %v", t.method.name, Codec(head.Codec)))
	}
	if err := t.reg.enter(); err != nil {
		return nil, err
	}
	f.Tag = t
	return t.pool, nil
}

// class returns how much a request matters. Any goroutine.
func (p *port) class(f *frame.Frame) limit.Class {
	t := targetOf(f)
	if t == nil {
		return limit.Critical
	}
	if p.o.TrustClass {
		if head, err := payload.ParsePrefix(f.Payload); err == nil {
			for key, value := range head.Meta.All() {
				if string(key) == limit.Field {
					return t.classOf(string(value))
				}
			}
		}
	}
	return t.reg.class
}

// classOf returns the class of a call that says so of itself, that of its service if it says nothing that is one.
func (t *target) classOf(said string) limit.Class {
	if c, ok := limit.ParseClass(said); ok {
		return c
	}
	return t.reg.class
}

func badRequest(err error) error {
	return &frame.StatusError{Status: frame.StatusBadRequest, Message: err.Error()}
}

func (p *port) notFound(head *payload.Prefix) error {
	if !wellFormedKey(head.Key) {
		return badRequest(fmt.Errorf("rpc: service key %q: want group/interface:version", head.Key))
	}
	e := &frame.StatusError{Status: frame.StatusNotFound}
	if (*p.table.Load())[string(head.Key)] == nil {
		e.Message = fmt.Sprintf("no service %q", head.Key)
	} else {
		e.Message = fmt.Sprintf("service %q has no method %q", head.Key, head.Method)
	}
	return e
}

// done uncounts a request that was routed.
func done(f *frame.Frame) {
	if t := targetOf(f); t != nil {
		t.reg.leave(nil)
	}
}

// timeout returns the smaller of the client's timeout and the service's, 0 if there is neither. Loop only.
func timeout(f *frame.Frame) time.Duration {
	t := targetOf(f)
	if t == nil {
		return 0
	}
	d := time.Duration(binary.BigEndian.Uint32(f.Payload)) * time.Millisecond // the prefix was parsed
	if d == 0 || t.reg.timeout > 0 && t.reg.timeout < d {
		d = t.reg.timeout
	}
	return d
}

// callValue implements the values of a call's context.
func (p *port) callValue(f *frame.Frame, key any) any {
	switch key.(type) {
	case limit.ContextKey:
		return p.class(f)
	case callKey:
	default:
		return nil
	}
	t := targetOf(f)
	if t == nil {
		return nil
	}
	head, err := payload.ParsePrefix(f.Payload)
	if err != nil {
		return nil
	}
	return t.info(f, &head)
}

// info returns what is known of a call of the target.
func (t *target) info(f *frame.Frame, p *payload.Prefix) *CallInfo {
	return &CallInfo{
		Key:      t.reg.svc.key,
		Method:   t.method.name,
		Codec:    Codec(p.Codec),
		OneWay:   f.Op() == frame.OneWay,
		Metadata: metadataOf(p.Meta),
		Peer:     f.Conn().RemoteAddr(),
	}
}

// handle decodes a request, calls its method and appends the response to dst, all where the method runs.
func (s *Server) handle(ctx context.Context, f *frame.Frame, dst []byte) ([]byte, error) {
	t := targetOf(f)
	if t == nil {
		return nil, errors.New("rpc: a request that was not routed")
	}
	head, err := payload.ParsePrefix(f.Payload)
	if err != nil {
		return nil, badRequest(err)
	}
	out, err := s.run(ctx, t.method, head.Codec, head.Body, dst)
	if err != nil {
		return nil, told(err)
	}
	return out, nil
}

// run decodes a body, calls the method and appends its response to dst. CallFrom knows the call that ctx belongs to.
func (s *Server) run(ctx context.Context, m *Method, codec payload.Codec, body, dst []byte) ([]byte, error) {
	if m.raw != nil && len(s.o.Interceptors) == 0 {
		resp, err := m.raw(ctx, body)
		if err != nil {
			return nil, err
		}
		return append(dst, resp...), nil
	}
	var req any = body
	switch {
	case m.raw != nil:
	case m.decoding:
		req = func(msg any) error {
			if err := codec.Decode(body, msg); err != nil {
				return badRequest(err)
			}
			return nil
		}
	case m.newReq == nil: // no parameter: a later version of the client may send a body
		req = nil
	default:
		req = m.newReq()
		if err := codec.Decode(body, req); err != nil {
			return nil, badRequest(err)
		}
	}
	resp, err := s.call(ctx, m, req)
	if err != nil {
		return nil, err
	}
	return appendResponse(dst, m, codec, resp)
}

// call calls a method, through the interceptors if there are any.
func (s *Server) call(ctx context.Context, m *Method, req any) (any, error) {
	if len(s.o.Interceptors) == 0 {
		return m.call(ctx, req)
	}
	return intercept(ctx, s.o.Interceptors, CallFrom(ctx), req, m.invoke)
}

// invoke calls the method with a decoded request, or with the body if it is a Raw one.
func (m *Method) invoke(ctx context.Context, req any) (any, error) {
	if m.raw == nil {
		return m.call(ctx, req)
	}
	body, ok := req.([]byte)
	if !ok {
		return nil, wrongRequest(req, body)
	}
	return m.raw(ctx, body)
}

// appendResponse encodes the response of a method.
func appendResponse(dst []byte, m *Method, c payload.Codec, resp any) ([]byte, error) {
	switch {
	case m.raw != nil:
		c = payload.Raw
	case m.oneWay && c != payload.JSON:
		return dst, nil
	case m.oneWay:
		resp = struct{}{}
	case isNil(resp):
		return nil, errNoResponse
	}
	out, err := c.Append(dst, resp)
	if err != nil {
		return nil, &frame.StatusError{Status: frame.StatusInternal, Message: err.Error()}
	}
	return out, nil
}

// isNil reports whether resp is nil or a nil pointer. An interceptor may have lost its type.
func isNil(resp any) bool {
	v := reflect.ValueOf(resp)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// told returns what a client is told of a method's error, with the details that the error has for it.
func told(err error) error {
	e := toldPlainly(err)
	if d, ok := errors.AsType[payload.Detailed](err); ok {
		detailed := *e
		detailed.Details = d.Details()
		return &detailed
	}
	return e
}

// toldPlainly is told without details. Errors of other pools, servers and calls that the method has
// met become APP_ERROR, unless a context ended. The client must not take them for the fate of its own request.
func toldPlainly(err error) *frame.StatusError {
	if e, ok := errors.AsType[*frame.StatusError](err); ok {
		return e
	}
	if s, ok := errors.AsType[*Status](err); ok {
		return s.framed()
	}
	if s := foreignStatus(err); s != nil {
		return s.framed()
	}
	e := &frame.StatusError{Status: frame.StatusAppError, Message: err.Error()}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Status = frame.StatusDeadlineExceeded
	case errors.Is(err, context.Canceled):
		e.Status = frame.StatusCanceled
	case errors.Is(err, errWrongRequest):
		e.Status = frame.StatusInternal
	}
	return e
}
