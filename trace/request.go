package trace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
)

// maxMarks bounds the stages of one request.
const maxMarks = 24

// firstMarks is how many stages a request has memory for from the start.
const firstMarks = 8

// Request is a request on its way. Any goroutine may call its methods. On one that is not sampled, and on nil, those that record
// do nothing.
type Request struct {
	rec     *Recorder
	sampled bool
	from    Parent // of the client
	self    Parent // of this request
	about   About
	began   time.Time
	ctx     context.Context // of the Tracer

	mu      sync.Mutex
	marks   []mark
	memory  [firstMarks]mark
	pending int  // stays of its message on loops and pools, see Messages
	served  bool // a handler has begun
	failure string
	over    bool
}

// mark is where a stage begins.
type mark struct {
	stage Stage
	where string
	at    time.Time
}

// Sampled reports whether the request is recorded.
func (r *Request) Sampled() bool { return r != nil && r.sampled }

// From returns the trace that the request continues, the zero value if it begins one.
func (r *Request) From() Parent { return r.from }

// Continues reports whether a trusted client has sent a trace or a baggage with the request.
func (r *Request) Continues() bool { return r.from.Valid() || r.from.Baggage != "" }

// Self returns the request's own trace and span, for those that it calls.
func (r *Request) Self() Parent { return r.self }

// About returns what the request is.
func (r *Request) About() About {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// Began returns the time at which the request had arrived.
func (r *Request) Began() time.Time { return r.began }

// Value returns a value of the Tracer's context, which holds the span.
func (r *Request) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return r
	}
	return r.ctx.Value(key)
}

type requestKey struct{}

// FromContext returns the request that a context belongs to, nil if no Recorder knows it.
func FromContext(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Context returns a context with the values of the request's, which never ends. It is a trace for eddy.Context.SetTrace
// and eddy.Conn.SetTrace.
func (r *Request) Context() context.Context { return &requestContext{context.Background(), r} }

// Within returns ctx with the values of the request's context, for what the request does with the deadline of ctx.
func (r *Request) Within(ctx context.Context) context.Context { return &requestContext{ctx, r} }

type requestContext struct {
	context.Context
	r *Request
}

// Value implements context.Context: the request's values, then those of the context below.
func (c *requestContext) Value(key any) any {
	if v := c.r.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// Rename changes the name of the request, which is known later than its begin.
func (r *Request) Rename(name string) {
	if r.Sampled() {
		r.mu.Lock()
		r.about.Name = name
		r.mu.Unlock()
	}
}

// Enter ends the stage that the request is in and begins the next one. where names the pool or the handler.
func (r *Request) Enter(s Stage, where string) {
	if !r.Sampled() {
		return
	}
	now := r.rec.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return
	case len(r.marks) == maxMarks:
		r.rec.counts.crowded.Add(1)
	default:
		r.marks = append(r.marks, mark{s, where, now})
	}
	r.served = r.served || s == Handler
}

// Fail notes why the request has failed. The first reason stands; nil changes nothing.
func (r *Request) Fail(err error) {
	if r.Sampled() && err != nil {
		r.fail(err.Error())
	}
}

func (r *Request) fail(text string) {
	r.mu.Lock()
	if r.failure == "" {
		r.failure = fmt.Sprintf("%.200s", text)
	}
	r.mu.Unlock()
}

// Done ends the request when its connection has passed everything that is queued to the kernel. Until then it is in the stage
// Write. Any goroutine; what the goroutine has written before counts as queued.
func (r *Request) Done(c *eddy.Conn) {
	if !r.Sampled() {
		return
	}
	s := new(eddy.Signal)
	s.Init(c, func() { r.Written(c) })
	if s.Raise() != nil { // the loop has ended
		r.End()
	}
}

// Written is Done for a caller on the connection's loop, or after the end of the connection.
func (r *Request) Written(c *eddy.Conn) {
	if !r.Sampled() {
		return
	}
	r.Enter(Write, "")
	if end := c.CloseError(); end != nil {
		r.Fail(end)
		r.End()
		return
	}
	c.SentFuture().OnDone(func(f *eddy.Future) {
		r.Fail(f.Err())
		r.End()
	})
}

// End ends the request now. Only the first call counts.
func (r *Request) End() {
	if !r.Sampled() {
		return
	}
	now := r.rec.o.Now()
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over = true
	if !r.served && r.failure == "" {
		r.failure = "no handler ran: it was refused, or was over before"
	}
	s := r.summary(now)
	r.mu.Unlock()
	rec := r.rec
	rec.times.add(s)
	rec.slowest.add(s)
	if t := rec.o.Tracer; t != nil {
		t.End(r.ctx, s)
	}
	rec.counts.ended.Add(1) // last: a request that counts as ended is in the list
}
