package eddy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
)

// tellsAll notes what a handler is told.
type tellsAll struct {
	st   *stage
	name string
}

func (h *tellsAll) HandleWritability(_ *Context, writable bool) error {
	h.st.note("%s writable %v", h.name, writable)
	return nil
}

func (h *tellsAll) HandleClose(*Context, CloseReason, error) { h.st.note("%s close", h.name) }

// TestNothingAfterTheClose: a resume or a refused write that reaches the loop after the close tells the handlers nothing.
func TestNothingAfterTheClose(t *testing.T) {
	h := &tellsAll{name: "app"}
	srv := &Server{Logger: slog.New(slog.DiscardHandler), Watermarks: Watermarks{Low: 10, High: 100, Max: 1000}, Init: func(p *Pipeline) error {
		return p.Add("app", h)
	}}
	st, l := newStage(t, srv)
	h.st = st
	a := st.connect(l)
	a.room = 0
	a.conn.Write(make([]byte, 200))
	l.Iterate()
	a.conn.PauseRead()
	a.conn.Close(CloseNormal)
	l.Iterate()
	a.conn.ResumeRead()
	l.Iterate()
	if got := st.noted("app"); len(got) != 2 || got[1] != "app close" {
		t.Errorf("told %q", got)
	}
}

// TestRefusedSubmissionIsUndone: the loop may meet the bytes of a write that its queue then refuses. It looks again, so
// that neither a pause nor the end of a drain waits for them, nor the memory budget counts them for ever.
func TestRefusedSubmissionIsUndone(t *testing.T) {
	for name, meets := range map[string]func(c *Conn){
		"watermarks": func(c *Conn) { c.noteWatermarks() },
		"drain":      func(c *Conn) { c.loop.drainConn(c) },
		"budget":     func(c *Conn) { c.account() },
	} {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.Watermarks, srv.MemoryBudget, srv.TaskQueue = Watermarks{Low: 10, High: 100, Max: 1000}, 1<<20, 1
		st, l := newStage(t, srv)
		a := st.connect(l)
		c := a.conn
		c.queued.Add(200) // a Write up to here
		meets(c)
		c.queued.Add(-200)
		c.Post(func() {})
		if err := c.Write([]byte("x")); !errors.Is(err, ErrSaturated) {
			t.Fatalf("Write = %v", err)
		}
		l.Iterate()
		l.Iterate()
		if c.paused != 0 || c.held.out != 0 || name == "drain" && c.phase < PhaseClosing {
			t.Errorf("%s: paused %b, %d bytes held, phase %v", name, c.paused, c.held.out, c.phase)
		}
	}
}

// TestEndThatWasPutOffIsBounded: an orderly end that waits for writes on their way through a pool comes within
// FlushTimeout, also when the deadline of a request passes meanwhile.
func TestEndThatWasPutOffIsBounded(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.HandlerTimeout, srv.FlushTimeout = time.Second, 3*time.Second
	st, l := newStage(t, srv)
	a := st.connect(l)
	c := a.conn
	c.Begin()
	c.counts.encoding.Add(1) // a WriteHandler on a pool that does not return
	c.CloseAfterFlush(CloseNormal)
	st.pass(l, 2900*time.Millisecond, 10*time.Millisecond)
	a.wantEnd(t, "before FlushTimeout", CloseUnset)
	st.pass(l, 200*time.Millisecond, 10*time.Millisecond)
	a.wantEnd(t, "after FlushTimeout", CloseWriteTimeout)
}

// TestDeadlinesThatAreSetLate: time that has run counts for limits that a connection gets in the middle.
func TestDeadlinesThatAreSetLate(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Watermarks = Watermarks{Low: 10, High: 100, Max: 1000}
	st, l := newStage(t, srv)
	full, half := st.connect(l), st.connect(l)
	full.room = 0
	full.conn.Write(make([]byte, 200))
	half.send("half")
	st.pass(l, 500*time.Millisecond, 100*time.Millisecond)
	for _, c := range []*Conn{full.conn, half.conn} {
		if err := c.SetDeadlines(&Deadlines{Read: time.Second, Backpressure: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	st.pass(l, 400*time.Millisecond, 10*time.Millisecond)
	full.wantEnd(t, "900 ms above the high watermark", CloseUnset)
	st.pass(l, 200*time.Millisecond, 10*time.Millisecond)
	full.wantEnd(t, "one second above the high watermark", CloseBackpressureLimit)
	half.wantEnd(t, "600 ms after the limit was set", CloseUnset)
	st.pass(l, 500*time.Millisecond, 10*time.Millisecond)
	half.wantEnd(t, "one second after the limit was set", CloseReadTimeout)
}

// exits ends the goroutine that tells it the close.
type exits struct{}

func (exits) HandleClose(*Context, CloseReason, error) { runtime.Goexit() }

// TestGoexitInTheClose: a CloseHandler that ends the loop's goroutine takes nothing from the others: the handlers behind
// it are told, Done is closed, and the connection that was served before stays open.
func TestGoexitInTheClose(t *testing.T) {
	var told atomic.Int32
	conns := make(chan *Conn, 2)
	srv := &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		p.Add("exits", exits{})
		p.Add("behind", &countCloses{&told})
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error {
			conns <- ctx.Conn()
			return ctx.Write(m)
		}))
	}}
	one := serveOne(t, srv)
	io.WriteString(one, "x")
	first := <-conns
	two := dialAgain(t, srv)
	io.WriteString(two, "x")
	second := <-conns
	first.Close(CloseNormal)
	<-first.CloseFuture().Done()
	until(t, "the handler behind", func() bool { return told.Load() == 1 })
	io.WriteString(two, "y")
	select {
	case c := <-conns:
		if c != second {
			t.Error("another connection")
		}
	case <-second.CloseFuture().Done():
		t.Errorf("the other connection ended: %v", second.CloseError())
	}
}

type countCloses struct{ n *atomic.Int32 }

func (h *countCloses) HandleClose(*Context, CloseReason, error) { h.n.Add(1) }

// TestChooserPanics: a Chooser that panics costs its choice: the connection goes to some loop, the loop that accepts goes
// on, and nothing that was counted is left.
func TestChooserPanics(t *testing.T) {
	broken := func(netip.AddrPort, []*Loop) int { panic("no choice") }
	g := &Group{Loops: 2, Chooser: broken, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { g.Close() })
	srv := cutServer(func(ctx *Context, msg string) error { return ctx.Write([]byte(msg)) })
	srv.Loops, srv.Group = 0, g
	c := serveOne(t, srv)
	io.WriteString(c, "hello;")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatalf("answered %q, %v", b, err)
	}
	c.Close()
	until(t, "the close", func() bool { return srv.Stats().Active == 0 })
	if n := srv.Stats().Boss.Faults; n > 0 {
		t.Errorf("%d faults of the loop that accepts", n)
	}
	d := &Dialer{Group: g, Init: srv.Init, Logger: slog.New(slog.DiscardHandler)}
	conn, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(CloseNormal)
	<-conn.CloseFuture().Done()
	if n := d.Stats().Active; n != 0 {
		t.Errorf("%d connections are counted", n)
	}
	d.Close()
}

// dialAgain makes another connection to a server that runs.
func dialAgain(t *testing.T, srv *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestWhoIsServed: what the watchdog is told to be served is what is, not the connection before: nobody while a new one is
// judged, and the right one when a deadline or a close calls its handlers.
func TestWhoIsServed(t *testing.T) {
	var l *loop
	served := map[string]*Conn{}
	srv := cutServer(func(*Context, string) error { return nil })
	srv.ReadTimeout = time.Second
	srv.Topology = SingleReactor
	srv.Admission.Decide = func(netip.AddrPort) Decision { served["decide"] = l.serving.Load(); return DecisionReject }
	inner := srv.Init
	srv.Init = func(p *Pipeline) error { inner(p); return p.Add("last", &lastWords{&l, served}) }
	st, first := newStage(t, srv)
	l = first
	st.listen(l, l)
	a, b := st.connect(l), st.connect(l)
	serve := func(x *actor) { x.send("whole;"); l.Iterate() }
	serve(b)
	st.pending = 1
	l.Iterate()
	if c, ok := served["decide"]; !ok || c != nil {
		t.Errorf("Decide: %v, %v", c, ok)
	}
	a.send("half")
	l.Iterate()
	serve(b)
	st.now.Add(int64(2 * time.Second))
	l.Iterate()
	if served["error"] != a.conn || served["close"] != a.conn {
		t.Errorf("HandleError: %p, HandleClose: %p, want %p and not %p", served["error"], served["close"], a.conn, b.conn)
	}
}

type lastWords struct {
	l      **loop
	served map[string]*Conn
}

func (h *lastWords) HandleError(_ *Context, err error) error {
	h.served["error"] = (*h.l).serving.Load()
	return err
}

func (h *lastWords) HandleClose(*Context, CloseReason, error) {
	h.served["close"] = (*h.l).serving.Load()
}
