package sim_test

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// echo: a server sends back what it gets, in small queues, to peers of every kind.
func echo(t *trial) {
	srv := &eddy.Server{
		CloseOnEOF: t.once(2),
		Watermarks: t.marks(),
	}
	own, taken := t.once(3), map[*eddy.Conn]int{}
	srv.Init = func(p *eddy.Pipeline) error {
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			taken[ctx.Conn()] += len(m.Bytes())
			if own {
				return ctx.Write(m.Detach())
			}
			return ctx.WriteBytes(m.Bytes())
		}))
	}
	addr := t.listen(srv)
	for range 1 + t.n(30) {
		t.join(addr, t.echoClient())
	}
	t.disturb(&crowd{srv: srv, mild: t.once(2)})
	t.relieve(srv)
	if t.load(6000) {
		t.finish()
	}
	for _, c := range t.clients {
		if c.eof && c.whole() && !srv.CloseOnEOF && c.ending == finAfterAll && !t.cut(c) && len(c.closedFor) == 0 && c.got != c.sent && t.lifeOf(c).reason != eddy.CloseOverload {
			t.w.Failf("%s sent %d bytes, half-closed and got %d back", c.name, c.sent, c.got)
		}
		if l := t.lifeOf(c); c.eof && c.whole() && l != nil && l.reason == eddy.CloseOverload && l.err == nil && c.got != taken[l.conn] {
			t.w.Failf("%s was ended by relief and got %d bytes back of %d that the server had taken", c.name, c.got, taken[l.conn])
		}
	}
}

// marks are low, so that they matter.
func (t *trial) marks() eddy.Watermarks {
	high := 64 << t.n(10)
	return eddy.Watermarks{Low: high / 2, High: high, Max: high + 128<<10}
}

func (t *trial) echoClient() *client {
	id := len(t.clients) + 1
	size := t.n(1 << (4 + t.n(13)))
	return &client{
		out:    stream(id, size),
		want:   func(from, n int) []byte { return streamAt(id, from, n) },
		most:   size,
		ending: manner(t.n(int(manners))),
	}
}

// load runs the world for a while. It returns false when it has failed.
func (t *trial) load(most int) bool {
	t.w.Rest(1 + t.n(most))
	return t.w.Err() == nil
}

// cut reports whether the client's connection was ended by the server's end, or by a fault inside it.
func (t *trial) cut(c *client) bool {
	l := t.lifeOf(c)
	return l == nil || l.reason == eddy.CloseServerShutdown || l.reason == eddy.CloseInternalError
}
