package trace

import "github.com/go-eddy/eddy"

// Messages returns a pipeline handler that records sampled messages, for pipelines without a protocol of this module. Add it
// behind the decoder, on the loop. Each message of type M is a request. It is over when its last handler has returned, on
// whatever pool, and what they had written by then was sent. name returns the request's name and is called for sampled
// messages only. Messages of other types are passed on.
func Messages[M any](rec *Recorder, name func(msg M) string) any { return messages[M]{rec, name} }

type messages[M any] struct {
	rec  *Recorder
	name func(msg M) string
}

// HandleOpen implements eddy.OpenHandler: messages that are not sampled have the connection's trace, which says so.
func (h messages[M]) HandleOpen(ctx *eddy.Context) error {
	if FromContext(ctx.Trace()) == nil {
		ctx.Conn().SetTrace(h.rec.unsampled.Context())
	}
	return nil
}

// HandleRead implements eddy.ReadHandler.
func (h messages[M]) HandleRead(ctx *eddy.Context, msg any) error {
	m, ok := msg.(M)
	if !ok || !h.rec.Sample(&Parent{}) {
		if ok {
			h.rec.counts.unsampled.Add(1)
		}
		ctx.FireRead(msg)
		return nil
	}
	c := ctx.Conn()
	r := h.rec.Begin(Parent{}, About{Protocol: "pipeline", Name: h.name(m), Peer: c.RemoteAddr(), Waited: c.Loop().Behind()})
	t := &messageTrace{requestContext{ctx.Trace(), r}}
	r.pending, r.served = 1, true // handlers on the loop are its dispatch
	ctx.SetTrace(t)
	ctx.FireRead(msg)
	t.Left(c)
	return nil
}

// messageTrace is the trace of a message in a pipeline: the request's values, then those of the connection's trace.
type messageTrace struct{ requestContext }

// Queued implements eddy.MessageTrace.
func (t *messageTrace) Queued(pool string) {
	t.r.mu.Lock()
	t.r.pending++
	t.r.mu.Unlock()
	if pool == "" {
		t.r.Enter(Hop, "")
	} else {
		t.r.Enter(QueueWait, pool)
	}
}

// Began implements eddy.MessageTrace.
func (t *messageTrace) Began(handler string) {
	if handler == "" {
		t.r.Enter(Dispatch, "")
	} else {
		t.r.Enter(Handler, handler)
	}
}

// Left implements eddy.MessageTrace.
func (t *messageTrace) Left(c *eddy.Conn) {
	t.r.mu.Lock()
	t.r.pending--
	last := t.r.pending == 0
	t.r.mu.Unlock()
	if last {
		t.r.Enter(Hop, "")
		t.r.Done(c)
	}
}
