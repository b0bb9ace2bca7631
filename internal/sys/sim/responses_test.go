package sim_test

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/responder"
)

// The kinds of requests of the responses scenario.
const (
	askQuick = iota
	askSlow
	askPanic
	askLocal
	askOneWay
	askCancel // the request before it
	asks
)

// responses: a Responder of any ordering over a pool that is too small, or is stopped in the middle. Its requests are
// slow, late, cancelled or panic.
func responses(t *trial) {
	o := responder.Ordering(t.n(3))
	work := t.pool("work")
	taken, released := 0, 0
	r, err := responder.New(responder.Options[*counted]{
		Pool: work, Ordering: o, InFlight: pick(t, 1, 3, 64),
		Run: func(_ context.Context, c *counted) (any, error) {
			if !t.w.IsCalm() && c.order == askSlow {
				t.w.Doze(time.Duration(t.n(int(3 * time.Millisecond))))
			}
			if c.order == askPanic {
				panic("as ordered")
			}
			return nil, nil
		},
		Answer:  func(c *counted, _ any, _ error) any { return encodeFrame(c.order, c.id, c.body) },
		ID:      func(c *counted) uint64 { return uint64(c.id) + 1 },
		Cancels: func(c *counted) (uint64, bool) { return uint64(c.id), c.order == askCancel },
		OneWay:  func(c *counted) bool { return c.order == askOneWay },
		Local:   func(c *counted) bool { return c.order == askLocal },
		Timeout: func(c *counted) time.Duration { return time.Duration(c.id%3) * 2 * time.Millisecond },
	})
	if err != nil {
		panic(err)
	}
	marks := t.marks()
	marks.Max = 1 << 20
	srv := &eddy.Server{CloseOnEOF: t.once(2), Watermarks: marks, Pools: []*executor.Pool{work}}
	srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("frames", frameDecoder{}); err != nil {
			return err
		}
		count := eddy.Handle(func(ctx *eddy.Context, f frame) error {
			taken++
			t.take(ctx.Conn(), int(f.id))
			ctx.FireRead(&counted{frame: f, released: &released, t: t})
			return nil
		})
		if err := p.Add("count", count); err != nil {
			return err
		}
		return p.Add("responder", r)
	}
	addr := t.listen(srv)
	t.disturb(&crowd{srv: srv, mild: true})
	t.relieve(srv)
	clients := make([]*responsesClient, 1+t.n(12))
	for i := range clients {
		clients[i] = t.responsesClient(addr, o)
	}
	if t.once(4) {
		t.w.Rest(1 + t.n(4000))
		work.Close()
	}
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() != nil {
		return
	}
	if taken != released {
		t.w.Failf("%d requests were taken, %d released", taken, released)
	}
	for _, c := range clients {
		c.verdict(!srv.CloseOnEOF)
	}
}

// counted is a frame whose release is counted.
type counted struct {
	frame
	released *int
	gone     bool
	t        *trial
}

func (c *counted) Detach() any {
	c.frame = c.frame.Detach().(frame)
	return c
}

func (c *counted) Release() {
	if c.gone {
		c.t.w.Failf("request %d was released twice", c.id)
	}
	c.gone = true
	*c.released++
}

// responsesClient is a client that knows which requests are answered, and in which order.
type responsesClient struct {
	*framesClient
	ordered bool
	next    int // the first id that may be answered
}

func (t *trial) responsesClient(addr netip.AddrPort, o responder.Ordering) *responsesClient {
	c := &responsesClient{framesClient: &framesClient{}, ordered: o != responder.ByCompletion}
	n := t.n(pick(t, 20, 60, 300))
	c.fatal = n
	var out []byte
	for id := range n {
		order := byte(t.n(asks))
		body := stream(len(t.clients)+id, t.n(pick(t, 1, 20, 400)))
		c.bodies, c.orders = append(c.bodies, body), append(c.orders, order)
		out = append(out, encodeFrame(order, uint16(id), body)...)
		c.ends = append(c.ends, len(out))
	}
	c.done = make([]bool, n)
	base := &client{out: out, most: -1, ending: pick(t, finAfterAll, stay, stay, closeEarly, resetEarly, finEarly, vanish)}
	base.take = c.take
	c.client = t.join(addr, base)
	return c
}

// take is framesClient.answers for responses that have an order.
func (c *responsesClient) take(p []byte) {
	was := append([]bool(nil), c.done...)
	c.answers(p)
	for id, done := range c.done {
		switch {
		case !done || was[id]:
			continue
		case c.silent(id):
			c.t.w.Failf("%s: request %d (%d) was answered", c.name, id, c.orders[id])
		case c.ordered && id < c.next:
			c.t.w.Failf("%s: response %d came after response %d", c.name, id, c.next-1)
		}
		c.next = id + 1
	}
}

func (c *responsesClient) silent(id int) bool {
	return c.orders[id] == askOneWay || c.orders[id] == askCancel
}

// verdict checks what has come back to a client that was not cut off.
func (c *responsesClient) verdict(halfClose bool) {
	l := c.t.lifeOf(c.client)
	if l == nil || !c.whole() || !c.eof || c.t.cut(c.client) || c.ended && !halfClose || errors.Is(l.err, context.DeadlineExceeded) {
		return
	}
	for id, done := range c.done {
		if c.asked(l, id) && !done && !c.silent(id) {
			c.t.w.Failf("%s: no response to request %d (%d)", c.name, id, c.orders[id])
		}
	}
}
