package eddy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// diary notes what a connection's handlers were told.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
	d.mu.Unlock()
}

func (d *diary) has(entry string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.entries, entry)
}

func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.entries, want) {
		t.Errorf("the handlers noted %q, want %q", d.entries, want)
	}
}

func (d *diary) HandleOpen(ctx *eddy.Context) error {
	d.note("open")
	return nil
}

func (d *diary) HandleRead(ctx *eddy.Context, msg any) error {
	d.note("frame %s", msg.(*buf.Bytes).Bytes())
	return reply(ctx, msg.(*buf.Bytes))
}

func (d *diary) HandleClose(_ *eddy.Context, reason eddy.CloseReason, _ error) {
	d.note("closed %v", reason)
}

// TestHandlerCallbacks: a connection's life is open, frames in order, one close with its reason; then the connection is gone.
func TestHandlerCallbacks(t *testing.T) {
	var d diary
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		conns <- p.Conn()
		return p.Add("diary", &d)
	}}
	c := dial(t, start(t, srv))
	conn := <-conns
	io.WriteString(c, "one\ntwo\n")
	expectLines(t, bufio.NewReader(c), "one", "two")
	c.Close()
	<-conn.CloseFuture().Done()
	waitFor(t, "the count", func() bool { return srv.Stats().Active == 0 })
	d.expect(t, "open", "frame one", "frame two", "closed peer_closed")
	if err := conn.Write([]byte("x")); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Write after the close = %v", err)
	}
}

// TestConnIdentity: a connection knows its peer, its own address and an id of its own.
func TestConnIdentity(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	addr := start(t, &eddy.Server{Loops: 2, Logger: quiet(), Init: initWith(captureConn(conns))})
	seen := map[eddy.ConnID]bool{}
	for range 6 {
		c := dial(t, addr)
		io.WriteString(c, "x")
		conn := <-conns
		if got, want := conn.RemoteAddr(), netip.MustParseAddrPort(c.LocalAddr().String()); got != want {
			t.Errorf("remote address %v, the client says %v", got, want)
		}
		if got := conn.LocalAddr().String(); got != addr {
			t.Errorf("local address %v, want %v", got, addr)
		}
		if seen[conn.ID()] {
			t.Errorf("id %v was given twice", conn.ID())
		}
		seen[conn.ID()] = true
	}
}

// TestForwardingIsExplicit: what a handler does not forward ends with it; what it fires by hand goes on.
func TestForwardingIsExplicit(t *testing.T) {
	var d diary
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("gate", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			switch s := string(m.Bytes()); s {
			case "read":
				ctx.FireRead("read by hand")
			case "event":
				ctx.FireEvent("event by hand")
			case "error":
				ctx.FireError(errors.New("error by hand"))
			}
			return nil
		}))
		p.Add("swallow", &swallow{d: &d, forward: "read by hand"})
		return p.Add("last", &swallow{d: &d, last: true})
	}})
	c := dial(t, addr)
	io.WriteString(c, "nothing\nread\nnothing\nevent\nerror\n")
	waitFor(t, "the last error", func() bool { return d.has("last error by hand") })
	d.expect(t, "first read by hand", "last read by hand", "first event by hand", "first error by hand", "last error by hand")
}

// swallow notes what it is told and forwards only messages and events that equal forward, and every error.
type swallow struct {
	d       *diary
	forward string
	last    bool
}

func (s *swallow) name() string {
	if s.last {
		return "last"
	}
	return "first"
}

func (s *swallow) HandleRead(ctx *eddy.Context, msg any) error {
	s.d.note("%s %v", s.name(), msg)
	if msg == s.forward {
		ctx.FireRead(msg)
	}
	return nil
}

func (s *swallow) HandleEvent(ctx *eddy.Context, ev any) error {
	if _, ok := ev.(string); ok {
		s.d.note("%s %v", s.name(), ev)
	}
	return nil
}

func (s *swallow) HandleError(ctx *eddy.Context, err error) error {
	s.d.note("%s %v", s.name(), err)
	if s.last {
		return nil
	}
	return err
}

// where tells on whose goroutine it is called.
func where() string {
	if bytes.Contains(debug.Stack(), []byte("executor.(*worker)")) {
		return "pool"
	}
	if bytes.Contains(debug.Stack(), []byte("internal/reactor.goroutine(")) {
		return "loop"
	}
	return "elsewhere"
}

// TestHandlersRunWhereTheyWereAdded: reading, decoding and encoding for the socket happen on the loop, a handler with a
// pool on that pool, one without on the loop.
func TestHandlersRunWhereTheyWereAdded(t *testing.T) {
	pool := newPool(t, 1, 16)
	var d diary
	spot := func(name string, forward bool) eddy.ReadHandler {
		return eddy.Handle(func(ctx *eddy.Context, m string) error {
			d.note("%s on %s", name, where())
			if forward {
				ctx.FireRead(m)
				return nil
			}
			return ctx.Write(m)
		})
	}
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("encode", encodeOn{&d})
		p.Add("string", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			d.note("decoded on %s", where())
			return toString(ctx, m)
		}))
		p.Add("read", spot("read", true))
		p.Add("business", spot("business", true), eddy.On(pool))
		return p.Add("forward", spot("forward", false))
	}})
	c := dial(t, addr)
	io.WriteString(c, "hello\n")
	expectLines(t, bufio.NewReader(c), "hello")
	d.expect(t, "decoded on loop", "read on loop", "business on pool", "forward on loop", "encoded on loop")
}

type encodeOn struct{ d *diary }

func (e encodeOn) HandleWrite(ctx *eddy.Context, msg any) error {
	e.d.note("encoded on %s", where())
	return ctx.Write(msg.(string) + "\n")
}

// pair is two handlers of one connection that must not run at once.
type pair struct {
	name    string
	running *atomic.Int32
	d       *diary
}

func (h pair) HandleOpen(ctx *eddy.Context) error { return h.run("open") }

func (h pair) HandleEvent(ctx *eddy.Context, ev any) error {
	ctx.FireEvent(ev)
	return h.run("event")
}

func (h pair) run(what string) error {
	if n := h.running.Add(1); n != 1 {
		h.d.note("%d at once", n)
	}
	for range 100 {
		runtime.Gosched()
	}
	h.d.note("%s %s", h.name, what)
	h.running.Add(-1)
	return nil
}

// TestOneStrandPerPoolAndConnection: all handlers of a connection on one pool share one serial strand, so they run in
// order and never at once; the pool's few workers serve the strands of many connections.
func TestOneStrandPerPoolAndConnection(t *testing.T) {
	pool := newPool(t, 2, 1024)
	const conns = 20
	var mu sync.Mutex
	var diaries []*diary
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		d, running := new(diary), new(atomic.Int32)
		mu.Lock()
		diaries = append(diaries, d)
		mu.Unlock()
		for _, name := range []string{"a", "b", "c", "d"} {
			p.Add(name, pair{name, running, d}, eddy.On(pool))
		}
		return p.Add("sink", eddy.Handle(func(*eddy.Context, any) error { return nil }))
	}})
	for range conns {
		dial(t, addr)
	}
	want := []string{"a open", "b open", "c open", "d open"}
	waitFor(t, "all handlers", func() bool {
		return pool.Stats().Running == 0 && pool.Stats().Queued == 0 && countEntries(&mu, &diaries) >= conns*len(want)
	})
	for _, d := range diaries {
		d.expect(t, want...)
	}
	if n := pool.Stats().Workers; n > 2 {
		t.Errorf("%d workers", n)
	}
}

func countEntries(mu *sync.Mutex, diaries *[]*diary) (n int) {
	mu.Lock()
	defer mu.Unlock()
	for _, d := range *diaries {
		d.mu.Lock()
		n += len(d.entries)
		d.mu.Unlock()
	}
	return n
}

// stuckUntil blocks on "stick" until the gate opens and answers everything.
func stuckUntil(gate <-chan struct{}) eddy.ReadHandler {
	return eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		if strings.HasPrefix(string(m.Bytes()), "stick") {
			<-gate
		}
		return reply(ctx, m)
	})
}

// TestTwoPoolsInOnePipeline: with the business pool stuck and full, the same connections' handshake pool works on.
func TestTwoPoolsInOnePipeline(t *testing.T) {
	handshakes, business := newPool(t, 1, 64), newPool(t, 1, 64)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("handshake", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "hello" {
				return ctx.Write([]byte("welcome\n"))
			}
			ctx.FireRead(m)
			return nil
		}), eddy.On(handshakes))
		return p.Add("business", stuckUntil(gate), eddy.On(business))
	}})
	stuck := dial(t, addr)
	r := bufio.NewReader(stuck)
	io.WriteString(stuck, "stick\n")
	waitFor(t, "the stuck business", func() bool { st := business.Stats(); return st.Running == 1 && st.Queued == 0 })
	io.WriteString(stuck, "hello\n")
	expectLines(t, r, "welcome")
	for range 3 {
		c := dial(t, addr)
		io.WriteString(c, "hello\n")
		expectLines(t, bufio.NewReader(c), "welcome")
	}
	open()
	expectLines(t, r, "stick")
}

// TestBlockedRolesLeaveOthersAlone: each role has its pipeline and its pool. Customers that block do not touch the agents;
// one agent that blocks leaves the idle worker to the other agents.
func TestBlockedRolesLeaveOthersAlone(t *testing.T) {
	customers, agents := newPool(t, 1, 1), newPool(t, 2, 64)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	roles := make(chan string, 1)
	var refused atomic.Int32
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		if <-roles == "agent" {
			return p.Add("app", stuckUntil(gate), eddy.On(agents))
		}
		return p.Add("app", stuckUntil(gate), eddy.On(customers), eddy.RejectReply(func(any) any { refused.Add(1); return nil }))
	}}
	addr := start(t, srv)
	connect := func(role string) (net.Conn, *bufio.Reader) {
		roles <- role
		c := dial(t, addr)
		return c, bufio.NewReader(c)
	}
	for range 3 { // one runs, one waits, one is refused
		c, _ := connect("customer")
		io.WriteString(c, "stick\n")
	}
	waitFor(t, "a stuck customer pool", func() bool { return customers.Stats().Running == 1 && refused.Load() == 1 })
	blocked, br := connect("agent")
	other, or := connect("agent")
	io.WriteString(other, "before\n")
	expectLines(t, or, "before")
	io.WriteString(blocked, "stick\n")
	waitFor(t, "a blocked agent", func() bool { st := agents.Stats(); return st.Running == 1 && st.Queued == 0 })
	for i := range 100 {
		io.WriteString(other, fmt.Sprintln(i))
		expectLines(t, or, fmt.Sprint(i))
	}
	open()
	expectLines(t, br, "stick")
}

// TestExplicitReads: with automatic reading off, each ResumeRead delivers one message; on again, all come.
func TestExplicitReads(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var handled atomic.Int32
	var automatic atomic.Bool
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if handled.Add(1) == 1 {
				conns <- ctx.Conn()
			}
			if !automatic.Load() {
				ctx.Conn().PauseRead()
			}
			return reply(ctx, m)
		}))
	}}
	c := dial(t, start(t, srv))
	r := bufio.NewReader(c)
	io.WriteString(c, "1\n2\n3\n4\n5\n6\n")
	conn := <-conns
	expectLines(t, r, "1")
	for i := range 3 {
		if n := handled.Load(); n != int32(i+1) {
			t.Fatalf("%d messages after %d reads", n, i+1)
		}
		conn.ResumeRead()
		expectLines(t, r, fmt.Sprint(i+2))
		settled := make(chan struct{})
		if err := conn.Post(func() { close(settled) }); err != nil { // whatever else were delivered would be by now
			t.Fatal(err)
		}
		<-settled
	}
	automatic.Store(true)
	conn.ResumeRead()
	expectLines(t, r, "5", "6")
}

// verdict is a decoder whose frames say what it answers.
type verdict struct {
	d *diary
	lines
}

func (v *verdict) Decode(ctx *eddy.Context, view []byte) (int, error) {
	v.d.note("view %q", view)
	line, _, whole := bytes.Cut(view, []byte{'\n'})
	switch {
	case !whole:
		return 0, nil
	case string(line) == "malformed":
		_ = ctx.WriteBytes([]byte("error frame\n"))
		return len(line) + 1, eddy.WithReason(eddy.CloseProtocolError, errors.New("malformed"))
	case string(line) == "huge":
		return 0, eddy.WithReason(eddy.CloseFrameTooLarge, errors.New("huge"))
	case string(line) == "greedy":
		return len(view) + 1, nil
	case string(line) == "negative":
		return -1, nil
	}
	return v.lines.Decode(ctx, view)
}

// TestDecoderResults: the four results of a decoder: more data is waited for with nothing consumed, a frame goes on, a
// protocol error and a frame that is too large end the connection with their reasons after the error frame; nothing
// behind them is decoded. A decoder that claims bytes it was not given ends its connection too.
func TestDecoderResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		send   []string
		answer string
		reason eddy.CloseReason
		views  []string
	}{
		{"need more data", []string{"ha", "lf", "\n"}, "half\n", eddy.ClosePeerClosed, []string{`view "ha"`, `view "half"`, `view "half\n"`}},
		{"frames", []string{"a\nb\nc"}, "a\nb\n", eddy.CloseIncompleteRequest, []string{`view "a\nb\nc"`, `view "b\nc"`, `view "c"`}},
		{"protocol error", []string{"a\nmalformed\nnever\n"}, "a\nerror frame\n", eddy.CloseProtocolError, []string{`view "a\nmalformed\nnever\n"`, `view "malformed\nnever\n"`}},
		{"frame too large", []string{"huge\nnever\n"}, "", eddy.CloseFrameTooLarge, []string{`view "huge\nnever\n"`}},
		{"consumed too much", []string{"greedy\n"}, "", eddy.CloseInternalError, []string{`view "greedy\n"`}},
		{"consumed less than nothing", []string{"negative\n"}, "", eddy.CloseInternalError, []string{`view "negative\n"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d diary
			var ends closes
			srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("verdict", &verdict{d: &d})
				p.Add("reply", eddy.Handle(reply))
				return p.Add("ends", &ends)
			}}
			conn := dial(t, start(t, srv)).(*net.TCPConn)
			sent := uint64(0)
			for _, s := range c.send {
				io.WriteString(conn, s)
				sent += uint64(len(s))
				waitFor(t, "the bytes", func() bool { return srv.Stats().Loops[0].BytesIn >= sent })
			}
			got := make([]byte, len(c.answer))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.answer {
				t.Errorf("answer %q, %v, want %q", got, err, c.answer)
			}
			conn.CloseWrite()
			expectEnd(t, conn)
			ends.wait(t, c.reason)
			d.expect(t, c.views...)
		})
	}
}
