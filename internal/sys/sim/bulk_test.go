package sim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/responder"
)

// A server of large answers sends messages of a kind of one byte, an id of two, a length of four and that many bytes.
const (
	bulkAnswer = iota
	bulkBusy   // instead of an answer
	bulkAsk    // a request of the server's
	bulkHead   = 7
)

// Its clients send frames of framesServer with these orders. The body of a request is empty, and the id determines that
// of a reply.
const (
	orderAsk = iota
	orderReply
)

func bulkMessage(kind byte, id uint16, n int) []byte {
	b := make([]byte, bulkHead, bulkHead+n)
	b[0] = kind
	binary.BigEndian.PutUint16(b[1:], id)
	binary.BigEndian.PutUint32(b[3:], uint32(n))
	return append(b, streamAt(int(id), 0, n)...)
}

// bulkServer answers each request with size bytes, which may be more than its watermarks. It also asks its clients when
// it is told to.
type bulkServer struct {
	t     *trial
	srv   *eddy.Server
	work  *executor.Pool
	order responder.Ordering
	size  int // of an answer
	parts bool
	most  int // requests in flight
	ends  map[*eddy.Conn]*bulkEnd
}

// bulkEnd is a connection of the server.
type bulkEnd struct {
	conn     *eddy.Conn
	taken    int // requests
	decided  int // of them, with an answer
	released int // of them, gone out
	refused  bool
	asked    []int
	replied  []bool
}

// settled is the number of answers after which the engine knows their length.
const settled = 12

// bulkServer makes the server. Requests beyond its pool's queue are answered BUSY.
func (t *trial) bulkServer(queue int) *bulkServer {
	high := 64 << t.n(8)
	marks := eddy.Watermarks{Low: pick(t, 1, high/2, high-1), High: high, Max: high + 1 + t.n(4*high)}
	s := &bulkServer{
		t: t, order: responder.Ordering(t.n(3)), most: pick(t, 1, 3, 64), parts: t.once(2), ends: map[*eddy.Conn]*bulkEnd{},
		size: 1 + t.n(pick(t, high, marks.Max/4, marks.Max, 2*marks.Max)),
	}
	var err error
	if s.work, err = executor.NewFixed(executor.Options{Name: "work", Workers: 1 + t.n(3), Queue: queue}); err != nil {
		panic(err)
	}
	simhook.SimulatePool(s.work, t.w.Workers())
	r, err := responder.New(responder.Options[*bulkRequest]{
		Pool: s.work, Ordering: s.order, InFlight: s.most, Answer: s.answer,
		Run: func(context.Context, *bulkRequest) (any, error) {
			if !t.w.IsCalm() && t.once(4) {
				t.w.Doze(time.Duration(t.n(int(3 * time.Millisecond))))
			}
			return nil, nil
		},
	})
	if err != nil {
		panic(err)
	}
	s.srv = &eddy.Server{Watermarks: marks, Overflow: pick(t, eddy.OverflowClose, eddy.OverflowReject), Pools: []*executor.Pool{s.work}}
	s.srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("frames", frameDecoder{}); err != nil {
			return err
		}
		if err := p.Add("take", eddy.Handle(s.take)); err != nil {
			return err
		}
		return p.Add("responder", r)
	}
	return s
}

func (s *bulkServer) of(c *eddy.Conn) *bulkEnd {
	e := s.ends[c]
	if e == nil {
		e = &bulkEnd{conn: c}
		s.ends[c] = e
	}
	return e
}

// take checks that only requests begin that the connection has room to answer, except for one.
func (s *bulkServer) take(ctx *eddy.Context, f frame) error {
	e := s.of(ctx.Conn())
	if f.order == orderReply {
		return e.reply(s.t, f)
	}
	running, q := e.taken-e.decided, ctx.Conn().QueuedBytes()
	if due := int64(running)*int64(s.size) + q; running > 0 && e.released >= settled && !e.refused && due*9/10 >= int64(s.srv.Watermarks.Max) {
		s.t.w.Failf("connection %v: a request begins behind %d others, whose answers have %d bytes each, and %d bytes; Max is %d",
			ctx.Conn().ID(), running, s.size, q, s.srv.Watermarks.Max)
	}
	if bound := int64(s.srv.Watermarks.Max) + int64(s.most+1)*int64(s.size+bulkHead) + int64(s.longestAsk()); q > bound {
		s.t.w.Failf("connection %v: %d bytes wait, more than %d", ctx.Conn().ID(), q, bound)
	}
	e.taken++
	ctx.FireRead(&bulkRequest{frame: f, end: e})
	return nil
}

type bulkRequest struct {
	frame
	end *bulkEnd
}

func (r *bulkRequest) Detach() any {
	r.frame = r.frame.Detach().(frame)
	return r
}

func (r *bulkRequest) Release() { r.end.released++ }

func (s *bulkServer) answer(r *bulkRequest, _ any, err error) any {
	r.end.decided++
	switch {
	case err != nil:
		r.end.refused = true
		return bulkMessage(bulkBusy, r.id, 0)
	case s.parts:
		b := bulkMessage(bulkAnswer, r.id, s.size)
		return [][]byte{b[:bulkHead], b[bulkHead:]}
	}
	return bulkMessage(bulkAnswer, r.id, s.size)
}

// ask is a goroutine that asks the peer for something, unless the peer owes too many replies.
func (s *bulkServer) ask(l *life) {
	e, owed := s.of(l.conn), 0
	for _, done := range e.replied {
		if !done {
			owed++
		}
	}
	if owed >= asksAtOnce || l.closed > 0 {
		return
	}
	n := s.t.n(s.longestAsk())
	switch err := l.conn.Write(bulkMessage(bulkAsk, uint16(len(e.asked)), n)); {
	case err == nil:
		e.asked, e.replied = append(e.asked, n), append(e.replied, false)
	case errors.Is(err, eddy.ErrBackpressure), errors.Is(err, eddy.ErrSaturated), errors.Is(err, eddy.ErrClosed):
	default:
		s.t.w.Failf("write: %v", err)
	}
}

func (s *bulkServer) longestAsk() int { return 2 * s.srv.Watermarks.High }

// asksAtOnce is how many requests of the server a client may leave without a reply.
const asksAtOnce = 8

func (e *bulkEnd) reply(t *trial, f frame) error {
	id := int(f.id)
	if id >= len(e.asked) || e.replied[id] || len(f.body) > 0 && !bytes.Equal(f.body, streamAt(id, 0, len(f.body))) {
		t.w.Failf("connection %v: a reply to %d, of %d that were asked; %v", e.conn.ID(), id, len(e.asked), e.replied)
		return nil
	}
	e.replied[id] = true
	return nil
}

// bulkClient asks and compares the answers. It answers requests of the server with large replies, BUSY beyond its
// bound.
type bulkClient struct {
	*client
	s     *bulkServer
	asks  int
	done  []bool
	next  int // the first id that may be answered
	part  []byte
	busy  int
	asked int
	bound int // of the bytes that it has still to send
}

func (s *bulkServer) client(addr netip.AddrPort, asks int, base *client) *bulkClient {
	c := &bulkClient{s: s, asks: asks, done: make([]bool, asks), bound: 1 + s.t.n(8<<10)}
	for id := range asks {
		base.out = append(base.out, encodeFrame(orderAsk, uint16(id), nil)...)
	}
	base.take, base.most = c.take, -1
	c.client = s.t.join(addr, base)
	return c
}

func (c *bulkClient) take(p []byte) {
	c.part = append(c.part, p...)
	for len(c.part) >= bulkHead {
		kind, id, n := c.part[0], binary.BigEndian.Uint16(c.part[1:]), int(binary.BigEndian.Uint32(c.part[3:]))
		if kind > bulkAsk || kind == bulkAnswer && n != c.s.size || kind == bulkBusy && n != 0 {
			c.t.w.Failf("%s: message %d of %d bytes", c.name, kind, n)
			return
		}
		if len(c.part) < bulkHead+n {
			return
		}
		if !bytes.Equal(c.part[bulkHead:bulkHead+n], streamAt(int(id), 0, n)) {
			c.t.w.Failf("%s: message %d of %d bytes, id %d, is not whole", c.name, kind, n, id)
			return
		}
		if c.part = c.part[bulkHead+n:]; kind == bulkAsk {
			c.reply(id)
		} else {
			c.answered(int(id), kind)
		}
	}
}

func (c *bulkClient) answered(id int, kind byte) {
	switch {
	case id >= c.asks || c.done[id]:
		c.t.w.Failf("%s: answer %d, of %d, had come", c.name, id, c.asks)
		return
	case c.s.order != responder.ByCompletion && id < c.next:
		c.t.w.Failf("%s: answer %d came after answer %d", c.name, id, c.next-1)
	}
	if kind == bulkBusy {
		c.busy++
	}
	c.done[id] = true
	c.next = id + 1
}

func (c *bulkClient) reply(id uint16) {
	var body []byte
	if len(c.out)-c.sent < c.bound { // else BUSY
		body = streamAt(int(id), 0, c.t.n(frameMax-3))
	}
	c.asked++
	c.out = append(c.out, encodeFrame(orderReply, id, body)...)
}

// rest: every request is answered, on both sides, if the peer reads and nothing broke the connection. A peer that does
// not read is cut.
func (c *bulkClient) rest() {
	l := c.t.lifeOf(c.client)
	if l == nil || c.p.Harmed() || c.broke || c.failed != nil && l.closed == 0 {
		return
	}
	e := c.s.of(l.conn)
	q, high := l.conn.QueuedBytes(), int64(c.s.srv.Watermarks.High)
	switch {
	case l.closed > 0:
		if !slices.Contains([]eddy.CloseReason{eddy.CloseInternalError, eddy.CloseBackpressureLimit}, l.reason) && c.ending != closeEarly && c.ending != vanish {
			c.whole(e)
		}
	case q >= high && c.s.srv.BackpressureTimeout > 0:
		c.t.w.Failf("%s: %d bytes wait, High is %d, and nobody ends that", c.name, q, high)
	case c.deaf == nil && c.ending != vanish:
		c.whole(e)
	}
}

func (c *bulkClient) whole(e *bulkEnd) {
	if i := slices.Index(c.done, false); i >= 0 || len(c.part) > 0 {
		c.t.w.Failf("%s: no answer to request %d of %d, sent %d of %d bytes; %d bytes of a message have come, %d wait", c.name, i, c.asks, c.sent, len(c.out),
			len(c.part), e.conn.QueuedBytes())
	}
	if i := slices.Index(e.replied, false); i >= 0 || c.asked != len(e.asked) {
		c.t.w.Failf("%s: no reply to %d of %d; %d have come", c.name, i, len(e.asked), c.asked)
	}
}
