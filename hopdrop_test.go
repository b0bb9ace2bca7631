package eddy

import (
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// closeTeller counts the closes it is told of.
type closeTeller struct{ told int }

func (h *closeTeller) HandleClose(*Context, CloseReason, error) { h.told++ }

func (*closeTeller) HandleRead(ctx *Context, msg any) error { ctx.FireRead(msg); return nil }

func (*closeTeller) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// TestStoppedPoolReleasesWhatWaits: a pool is stopped while events of a connection wait in it. Their messages are released,
// nothing stays in flight, the connection ends, and its handler is told of the close once.
func TestStoppedPoolReleasesWhatWaits(t *testing.T) {
	for name, send := range map[string]func(c *Conn, msg any){
		"inbound":  func(c *Conn, msg any) { c.fireReadFromHead(msg) },
		"outbound": func(c *Conn, msg any) { c.Write(msg); c.loop.Iterate() },
		"before the close": func(c *Conn, msg any) {
			c.fireReadFromHead(msg)
			c.Close(CloseNormal)
			c.loop.Iterate()
		},
	} {
		pool, err := executor.NewFixed(executor.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		gate, entered := make(chan struct{}), make(chan struct{})
		if err := pool.SubmitFunc(func() { close(entered); <-gate }); err != nil {
			t.Fatal(err)
		}
		<-entered
		h := &closeTeller{}
		st, l := newStage(t, countedServer(func(p *Pipeline) error { return p.Add("on a pool", h, On(pool)) }))
		a := st.connect(l)
		c := a.conn
		s := c.Buffers().Copy(make([]byte, 5000))
		send(c, s.Retain())
		if n := s.Refs(); n != 2 {
			t.Errorf("%s: %d references while the message waits", name, n)
		}
		if left := pool.Close(); len(left) != 0 {
			t.Errorf("%s: %d runners left", name, len(left))
		}
		if n := s.Refs(); n != 1 {
			t.Errorf("%s: %d references, want the test's own", name, n)
		}
		a.eof = true // the peer sees the end of the stream and closes too
		stepUntil(t, "the end of the connection", func() bool { l.Iterate(); return c.closedError() != nil && h.told > 0 })
		if n := c.counts.inflight.Load() + c.counts.encoding.Load() + c.counts.transit.Load(); n != 0 || h.told != 1 {
			t.Errorf("%s: %d in flight, %d closes told", name, n, h.told)
		}
		s.Release()
		close(gate)
	}
}
