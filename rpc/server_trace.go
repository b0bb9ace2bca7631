package rpc

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc/internal/payload"
	"github.com/go-eddy/eddy/trace"
)

// tracedTarget is the Tag of a frame whose request is recorded, or continues a trace that is not.
type tracedTarget struct {
	*target
	request *trace.Request
}

// traced puts the port's Recorder around the functions that serve a frame. A port without a Recorder has none of this.
func (p *port) traced(o *frame.Options) {
	if p.o.Trace == nil {
		return
	}
	t := tracedFrames{p, *o}
	o.Route, o.Done, o.Value, o.Append = t.route, t.done, t.value, t.handle
}

// tracedFrames serves the frames of a port with a Recorder, by the functions of one without.
type tracedFrames struct {
	p     *port
	below frame.Options
}

// route is Options.Route. Loop only.
func (o tracedFrames) route(f *frame.Frame) (*executor.Pool, error) {
	pool, err := o.below.Route(f)
	t, ok := f.Tag.(*target)
	if err != nil || !ok {
		return pool, err
	}
	head, err := payload.ParsePrefix(f.Payload)
	if err != nil {
		return nil, badRequest(err)
	}
	rec := o.p.o.Trace
	from := rec.Receive(o.p.o.TrustTrace, fieldsOf(head.Meta))
	if rec.Sample(&from) {
		r := rec.Begin(from, trace.About{
			Protocol: "frame", Name: t.name(), Peer: f.Conn().RemoteAddr(), Waited: f.Conn().Loop().Behind(),
		})
		if pool != nil {
			r.Enter(trace.QueueWait, pool.Name())
		}
		f.Tag = &tracedTarget{t, r}
	} else if r := rec.Unsampled(from); r.Continues() {
		f.Tag = &tracedTarget{t, r}
	}
	return pool, nil
}

// name returns the target's name in traces.
func (t *target) name() string { return t.reg.svc.key.Interface + "/" + t.method.name }

// fieldsOf returns the fields of a trace among the pairs of a prefix.
func fieldsOf(pairs payload.Pairs) (f trace.Fields) {
	for key, value := range pairs.All() {
		if k := string(key); k == trace.FieldTraceparent || k == trace.FieldTracestate || k == trace.FieldBaggage {
			f.Add(k, string(value))
		}
	}
	return f
}

// handle is Options.Append: the handler of a recorded request runs between two of its stages.
func (o tracedFrames) handle(ctx context.Context, f *frame.Frame, dst []byte) (out []byte, err error) {
	t, ok := f.Tag.(*tracedTarget)
	if !ok {
		return o.below.Append(ctx, f, dst)
	}
	err = errPanicked
	t.request.Enter(trace.Handler, t.method.name)
	defer func() {
		t.request.Fail(err)
		t.request.Enter(trace.Hop, "")
	}()
	return o.below.Append(ctx, f, dst)
}

var errPanicked = errors.New("the method panicked")

// done is Options.Done.
func (o tracedFrames) done(f *frame.Frame) {
	o.below.Done(f)
	if t, ok := f.Tag.(*tracedTarget); ok {
		t.request.Written(f.Conn())
	}
}

// value is Options.Value: the context of a call has the values of its trace.
func (o tracedFrames) value(f *frame.Frame, key any) any {
	if v := o.below.Value(f, key); v != nil {
		return v
	}
	if t, ok := f.Tag.(*tracedTarget); ok {
		return t.request.Value(key)
	}
	return o.p.o.Trace.Below(key)
}

// traced puts the port's Recorder around the calls by gRPC. Calls by Connect and gRPC-Web are requests of HTTP.
func (g *grpcPort) traced(o *http2.Options) {
	rec := g.p.o.Trace
	if rec == nil {
		return
	}
	o.Trace, o.TrustTrace = rec, g.p.o.TrustTrace
	if below := o.Calls; below != nil {
		o.Calls = func(h http2.Head) http2.Followed { return g.trace(h, below(h)) }
	}
}

// trace begins the trace of a call that is admitted. Loop only.
func (g *grpcPort) trace(h http2.Head, to http2.Followed) http2.Followed {
	c, ok := to.Call.(*grpcCall)
	if !ok || c.target == nil {
		return to
	}
	var f trace.Fields
	for name, value := range h.All() {
		f.Add(name, value)
	}
	rec := g.p.o.Trace
	from := rec.Receive(g.p.o.TrustTrace, f)
	if !rec.Sample(&from) {
		c.trace = rec.Unsampled(from)
		return to
	}
	c.conn = h.Conn()
	c.trace = rec.Begin(from, trace.About{Protocol: "grpc", Name: c.target.name(), Peer: c.conn.RemoteAddr(), Waited: c.conn.Loop().Behind()})
	if !to.OnLoop {
		c.trace.Enter(trace.QueueWait, to.Pool.Name())
	}
	to.Call = &tracedCall{c}
	return to
}

// tracedCall is a call that is recorded.
type tracedCall struct{ *grpcCall }

// Serve implements http2.Call.
func (c *tracedCall) Serve(x *http2.Exchange) {
	c.trace.Enter(trace.Handler, c.target.method.name)
	err := errPanicked
	defer func() {
		c.trace.Fail(err)
		c.trace.Enter(trace.Hop, "")
	}()
	err = c.serve(x)
}

// Over implements http2.Call.
func (c *tracedCall) Over() {
	c.grpcCall.Over()
	c.trace.Written(c.conn)
}
