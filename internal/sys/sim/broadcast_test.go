package sim_test

import (
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// channel is one stream of bytes that goes to many connections in counted buffers.
type channel struct {
	t    *trial
	off  int                // bytes so far
	from map[*eddy.Conn]int // what of it a connection missed before its first message
	sent map[*eddy.Conn]int
}

// say sends the next bytes to every connection. Each connection gets a reference to one buffer, whole or in pieces.
func (b *channel) say(l *life) {
	t := b.t
	s := l.conn.Buffers().Get(1 + t.n(pick(t, 10, 3000, 3000, 40000)))
	copy(s.Bytes(), streamAt(0, b.off, s.Len()))
	for _, l := range t.lives {
		if l.closed == 0 {
			b.sayTo(l.conn, s)
		}
	}
	b.off += s.Len()
	s.Release()
}

func (b *channel) sayTo(c *eddy.Conn, s *buf.Shared) {
	if _, known := b.from[c]; !known {
		b.from[c] = b.off
		from := b.off
		b.t.peers[c.RemoteAddr()].want = func(at, n int) []byte { return streamAt(0, from+at, n) }
	}
	for _, msg := range b.pieces(s) {
		n := 0
		switch m := msg.(type) {
		case *buf.Shared:
			n = m.Len()
		case *buf.Composite:
			n = m.Len()
		}
		switch err := c.Write(msg); {
		case err == nil:
			b.sent[c] += n
		case errors.Is(err, eddy.ErrBackpressure), errors.Is(err, eddy.ErrSaturated), errors.Is(err, eddy.ErrClosed):
			c.Close(eddy.CloseBackpressureLimit) // it would miss something
		default:
			b.t.w.Failf("write: %v", err)
		}
	}
}

// pieces are one or two messages that together say what is in s.
func (b *channel) pieces(s *buf.Shared) []any {
	if b.t.once(2) {
		return []any{s.Retain()}
	}
	whole := new(buf.Composite)
	if err := whole.AppendShared(s.Retain()); err != nil {
		b.t.w.Failf("a composite of one part: %v", err)
	}
	cut := b.t.n(s.Len())
	head := whole.Slice(0, cut)
	if err := head.Append(append([]byte(nil), s.Bytes()[cut:]...)); err != nil {
		b.t.w.Failf("a composite of two parts: %v", err)
	}
	if b.t.once(2) {
		whole.Release()
		return []any{head}
	}
	head.Release()
	defer whole.Release()
	return []any{whole.Slice(0, cut), whole.Slice(cut, s.Len())}
}

// broadcast: one message goes to all connections of a server in one counted buffer. The buffer must come back when each
// of them has sent it, was refused it or has ended.
func broadcast(t *trial) {
	srv := &eddy.Server{Watermarks: t.marks()}
	srv.Watermarks.Max = srv.Watermarks.High + t.n(256<<10)
	srv.Init = func(p *eddy.Pipeline) error {
		return p.Add("drop", eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil }))
	}
	addr := t.listen(srv)
	t.allow(eddy.CloseBackpressureLimit)
	b := &channel{t: t, from: map[*eddy.Conn]int{}, sent: map[*eddy.Conn]int{}}
	t.disturb(&crowd{srv: srv, mild: t.once(2), push: b.say})
	for range 1 + t.n(16) {
		t.join(addr, &client{
			out:    stream(len(t.clients)+1, t.n(300)),
			want:   func(_, n int) []byte { return make([]byte, n) },
			most:   -1,
			ending: pick(t, stay, stay, stay, finAfterAll, closeEarly, resetEarly, vanish),
		})
	}
	t.w.Always(sim.OffLoopWrite)
	if t.load(8000) {
		t.finish()
	}
	for _, l := range t.lives {
		c := t.peers[l.conn.RemoteAddr()]
		if c.eof && c.whole() && !c.ended && !t.cut(c) && len(c.closedFor) == 0 && l.reason != eddy.CloseBackpressureLimit && c.got != b.sent[l.conn] {
			t.w.Failf("%s got %d bytes of %d; the connection ended with %v", c.name, c.got, b.sent[l.conn], l.reason)
		}
	}
}
