package sim_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// framesClient sends orders and compares the answers.
type framesClient struct {
	*client
	bodies [][]byte // by id
	orders []byte
	ends   []int // where each frame ends in what is sent
	done   []bool
	part   []byte
	pooled bool
	loose  bool
	fatal  int // the first id that ends the connection, len(orders) if none does
}

// fatalOrders are the orders that end a connection, with the reasons. On a pool other orders may be read before the
// first fatal one is carried out.
var fatalOrders = map[byte]eddy.CloseReason{
	orderFail: eddy.CloseInternalError, orderPanic: eddy.CloseInternalError, orderBye: eddy.CloseNormal,
	orderBad: eddy.CloseProtocolError, orderTooLong: eddy.CloseFrameTooLarge,
}

// client adds a client with orders of its own.
func (s *framesServer) client(addr netip.AddrPort) *framesClient {
	t := s.t
	c := &framesClient{}
	n := t.n(pick(t, 20, 60, 400))
	most := frameMax - 3
	if n > 60 {
		most = 40
	}
	wild := t.once(3)
	c.fatal = n
	var out []byte
	for id := range n {
		order := byte(t.n(orderFail))
		if wild && t.once(10) {
			order = pick[byte](t, orderFail, orderPanic, orderBye, orderBad, orderTooLong)
		}
		body := stream(len(t.clients)+id, t.n(pick(t, 1, 20, min(400, most), most)))
		f := encodeFrame(order, uint16(id), body)
		if order == orderTooLong {
			binary.BigEndian.PutUint16(f, frameMax+1+uint16(t.n(1000)))
		}
		if order >= orderFail && c.fatal == n {
			c.fatal = id
		}
		c.bodies, c.orders = append(c.bodies, body), append(c.orders, order)
		out = append(out, f...)
		c.ends = append(c.ends, len(out))
	}
	c.done = make([]bool, n)
	base := &client{out: out, most: -1, ending: pick(t, finAfterAll, stay, stay, closeEarly, resetEarly, finEarly, vanish)}
	base.take = c.answers
	c.pooled, c.loose = s.pooled, s.loose
	for id := c.fatal; id < n; id++ {
		if r, ok := fatalOrders[c.orders[id]]; ok && (id == c.fatal || s.pooled) {
			base.closedFor = append(base.closedFor, r)
		}
	}
	c.client = t.join(addr, base)
	return c
}

// answers takes what came back: each answer once, with the body that was sent.
func (c *framesClient) answers(p []byte) {
	c.part = append(c.part, p...)
	for len(c.part) >= 2 {
		n := int(binary.BigEndian.Uint16(c.part))
		if len(c.part) < 2+n {
			return
		}
		order, id, body := c.part[2], int(binary.BigEndian.Uint16(c.part[3:])), c.part[frameHead:2+n]
		switch {
		case n < 3 || n > frameMax:
			c.t.w.Failf("%s: an answer of %d bytes", c.name, n)
			return
		case id >= len(c.orders), id >= c.fatal && !c.pooled && !(id == c.fatal && order == orderBye):
			c.t.w.Failf("%s: an answer to frame %d, of %d, and %d was to be the last", c.name, id, len(c.orders), c.fatal)
			return
		case order != c.orders[id] || !bytes.Equal(body, c.bodies[id]):
			c.t.w.Failf("%s: a wrong answer to frame %d", c.name, id)
		case c.done[id]:
			c.t.w.Failf("%s: a second answer to frame %d", c.name, id)
		}
		c.done[id] = true
		c.part = c.part[2+n:]
	}
}

// verdict checks what has come back to a client that was not cut off.
func (c *framesClient) verdict(halfClose bool) {
	l := c.t.lifeOf(c.client)
	counts := c.t.w.Counts()
	if l == nil || l.reason != eddy.ClosePeerClosed && counts[sim.TimeJump]+counts[sim.Stall] > 0 {
		return // it may have ended because its time was over
	}
	forced := c.t.endsFrom != 0 && l.ended >= c.t.endsFrom || counts[sim.AddFails]+counts[sim.ModifyFails]+counts[sim.WaitFails] > 0
	if c.failed != nil && !c.p.Harmed() && !c.broke && !forced && l.reason == eddy.CloseNormal && l.took() < linger {
		c.t.w.Failf("%s: %v overtook an orderly end after %v", c.name, c.failed, l.took())
	}
	if !c.whole() || !c.eof || c.t.cut(c.client) {
		return
	}
	if c.ended && !halfClose {
		return // the answers that were ready went out, as far as the kernel took them
	}
	if len(c.part) > 0 {
		c.t.w.Failf("%s: the connection ended in order inside an answer", c.name)
	}
	if c.fatal < len(c.orders) && c.orders[c.fatal] == orderBye && l.reason == eddy.CloseNormal && !c.pooled && !c.done[c.fatal] {
		c.t.w.Failf("%s: the connection ended in order without the answer that came before", c.name)
	}
	for id, done := range c.done {
		if id < c.fatal && c.asked(l, id) && !done && c.promised(id) {
			c.t.w.Failf("%s (%v): no answer to frame %d (order %d), fatal %d, sent %d of %d, %d frames answered", c.name, l.reason, id, c.orders[id], c.fatal,
				c.sent, len(c.out), len(slices.DeleteFunc(slices.Clone(c.done), func(d bool) bool { return !d })))
		}
	}
}

// asked reports whether the server owes an answer to a frame: it had all the time to read it or, where the server relieved itself, it did read it.
func (c *framesClient) asked(l *life, id int) bool {
	if l.reason == eddy.CloseOverload {
		return slices.Contains(l.taken, id)
	}
	return c.ends[id] <= c.sent
}

// promised reports whether the answer to a frame comes before an end that the client did not cause. Answers on the loop
// do. Those of other goroutines and timers do only if nothing else ended the connection.
func (c *framesClient) promised(id int) bool {
	order := c.orders[id]
	if c.loose {
		return c.fatal == len(c.orders)
	}
	if c.pooled && slices.Contains(c.orders, orderTooLong) {
		return false // found before what came earlier has left its pool
	}
	return order == orderEcho || order == orderPause || c.fatal == len(c.orders)
}
