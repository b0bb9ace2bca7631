package sim_test

import (
	"bytes"
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// push: goroutines of the server write to slow peers beyond every watermark.
func push(t *trial) {
	srv := &eddy.Server{Watermarks: t.marks(), Overflow: pick(t, eddy.OverflowClose, eddy.OverflowReject)}
	srv.Watermarks.Max = srv.Watermarks.High + t.n(64<<10)
	if t.once(3) {
		srv.MemoryBudget = 1 + t.n(64<<10)
		t.allow(eddy.CloseBackpressureLimit)
	}
	srv.Init = func(p *eddy.Pipeline) error {
		return p.Add("drop", eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil }))
	}
	addr := t.listen(srv)
	if srv.Overflow == eddy.OverflowClose {
		t.allow(eddy.CloseBackpressureLimit)
	}
	pushed := map[*eddy.Conn]int{}
	t.disturb(&crowd{srv: srv, mild: t.once(2), push: func(l *life) {
		c := t.peers[l.conn.RemoteAddr()]
		n := 1 + t.n(pick(t, 10, 3000, 3000, 40000))
		p := bytes.Clone(streamAt(c.id, pushed[l.conn], n))
		q := l.conn.QueuedBytes()
		end := pushed[l.conn] + n
		_, err := t.write(l.conn, p, func() {
			if got := c.p.Taken(); got < end {
				t.w.Failf("%s: the future of byte %d succeeded when %d were taken", c.name, end, got)
			}
		})
		switch {
		case err == nil:
			pushed[l.conn] += n
			if after := l.conn.QueuedBytes(); after > int64(srv.Watermarks.Max) && q >= int64(srv.Watermarks.High) {
				t.w.Failf("a write of %d bytes was taken with %d queued, now %d, limit %d", n, q, after, srv.Watermarks.Max)
			}
		case errors.Is(err, eddy.ErrBackpressure), errors.Is(err, eddy.ErrSaturated), errors.Is(err, eddy.ErrClosed):
		default:
			t.w.Failf("write: %v", err)
		}
	}})
	t.relieve(srv)
	for range 1 + t.n(16) {
		id := len(t.clients) + 1
		t.join(addr, &client{
			out:    stream(id, t.n(300)),
			want:   func(from, n int) []byte { return streamAt(id, from, n) },
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
		if c.eof && c.whole() && !c.ended && !t.cut(c) && len(c.closedFor) == 0 && c.got != pushed[l.conn] {
			t.w.Failf("%s got %d bytes of %d; the connection ended with %v", c.name, c.got, pushed[l.conn], l.reason)
		}
	}
}
