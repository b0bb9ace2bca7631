package eddy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// gates lets handlers wait for the word they were sent.
type gates struct {
	mu      sync.Mutex
	open    map[string]chan struct{}
	waiting map[string]int
}

func newGates() *gates {
	return &gates{open: map[string]chan struct{}{}, waiting: map[string]int{}}
}

func (g *gates) gate(word string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[word] == nil {
		g.open[word] = make(chan struct{})
	}
	return g.open[word]
}

func (g *gates) wait(word string) {
	ch := g.gate(word)
	g.mu.Lock()
	g.waiting[word]++
	g.mu.Unlock()
	<-ch
	g.mu.Lock()
	g.waiting[word]--
	g.mu.Unlock()
}

func (g *gates) at(word string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting[word]
}

// handle waits on words that begin with "wait" and answers everything.
func (g *gates) handle(ctx *eddy.Context, m *buf.Bytes) error {
	if s := string(m.Bytes()); strings.HasPrefix(s, "wait") {
		g.wait(s)
	}
	return reply(ctx, m)
}

// TestUnorderedMessages: each message of a connection has a task of its own. While some block, the later ones of the same
// connection are answered, in whatever order they are done; a handler with On keeps all behind the one that blocks.
func TestUnorderedMessages(t *testing.T) {
	pool := newPool(t, 4, 64)
	g := newGates()
	ordered := make(chan bool, 1)
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		if <-ordered {
			return p.Add("app", eddy.Handle(g.handle), eddy.On(pool))
		}
		return p.Add("app", eddy.Handle(g.handle), eddy.OnUnordered(pool))
	}})
	ordered <- false
	c := dial(t, addr)
	r := bufio.NewReader(c)
	io.WriteString(c, "wait a\nwait b\nquick 1\nquick 2\n")
	got := map[string]bool{}
	for range 2 {
		s, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got[s] = true
	}
	if !got["quick 1\n"] || !got["quick 2\n"] {
		t.Fatalf("answered %v", got)
	}
	close(g.gate("wait b"))
	expectLines(t, r, "wait b")
	io.WriteString(c, "quick 3\n")
	expectLines(t, r, "quick 3")
	close(g.gate("wait a"))
	expectLines(t, r, "wait a")

	ordered <- true
	c = dial(t, addr)
	r = bufio.NewReader(c)
	io.WriteString(c, "wait c\nquick\n")
	waitFor(t, "a blocked message", func() bool { return g.at("wait c") == 1 })
	close(g.gate("wait c"))
	expectLines(t, r, "wait c", "quick")
}

// TestBlockedMessageOfAnAgent: agents are unordered on a pool. With one message of an agent blocked, its other messages,
// the other agents' and the customers' are answered while a worker is idle.
func TestBlockedMessageOfAnAgent(t *testing.T) {
	agents, customers := newPool(t, 3, 64), newPool(t, 1, 64)
	g := newGates()
	roles := make(chan string, 1)
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		if <-roles == "agent" {
			return p.Add("app", eddy.Handle(g.handle), eddy.OnUnordered(agents))
		}
		return p.Add("app", eddy.Handle(g.handle), eddy.On(customers))
	}})
	connect := func(role string) (net.Conn, *bufio.Reader) {
		roles <- role
		c := dial(t, addr)
		return c, bufio.NewReader(c)
	}
	blocked, br := connect("agent")
	other, or := connect("agent")
	customer, cr := connect("customer")
	stuck, _ := connect("customer")
	io.WriteString(blocked, "wait agent\n")
	waitFor(t, "the blocked message", func() bool { return g.at("wait agent") == 1 })
	for i := range 50 {
		word := fmt.Sprint("message ", i)
		for _, p := range []struct {
			io.Writer
			*bufio.Reader
		}{{blocked, br}, {other, or}, {customer, cr}} {
			io.WriteString(p.Writer, word+"\n")
			expectLines(t, p.Reader, word)
		}
	}
	io.WriteString(stuck, "wait customer\n") // the customers' only worker: agents go on
	waitFor(t, "the blocked customer", func() bool { return g.at("wait customer") == 1 })
	io.WriteString(blocked, "still here\n")
	expectLines(t, br, "still here")
	close(g.gate("wait agent"))
	close(g.gate("wait customer"))
	expectLines(t, br, "wait agent")
}

// TestUnorderedBound: a connection has at most about 64 messages on their way; then its reads pause, and resume when some
// have returned though others still hang. Nothing is lost, and another connection is served meanwhile.
func TestUnorderedBound(t *testing.T) {
	pool := newPool(t, 80, 1024)
	hang, rest := make(chan struct{}), make(chan struct{})
	var handled, running atomic.Int64
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			running.Add(1)
			switch {
			case string(m.Bytes()) == "other":
			case handled.Load() < 30 && handled.Add(1) <= 30:
				<-hang
			default:
				<-rest
			}
			running.Add(-1)
			return reply(ctx, m)
		}), eddy.OnUnordered(pool))
	}}
	addr := start(t, srv)
	c, other := dial(t, addr), dial(t, addr)
	const n = 3000
	go func() {
		for i := range n {
			fmt.Fprintln(c, i)
		}
	}()
	waitFor(t, "a paused connection", func() bool { return running.Load() >= 64 })
	io.WriteString(other, "other\n")
	expectLines(t, bufio.NewReader(other), "other")
	if k := running.Load(); k > 66 {
		t.Errorf("%d messages of one connection run", k)
	}
	close(rest) // 30 still hang, and the rest goes on
	r := bufio.NewReader(c)
	seen := map[string]bool{}
	read := func(k int) {
		t.Helper()
		for range k {
			s, err := r.ReadString('\n')
			if err != nil || seen[s] {
				t.Fatalf("read %q twice or %v", s, err)
			}
			seen[s] = true
		}
	}
	read(n - 30)
	close(hang)
	read(30)
}

// lifeOnPool notes what an unordered handler is told.
type lifeOnPool struct {
	d    *diary
	open chan struct{}
	g    *gates
}

func (h *lifeOnPool) HandleOpen(ctx *eddy.Context) error {
	<-h.open
	h.d.note("open")
	ctx.SetState("opened")
	return nil
}

func (h *lifeOnPool) HandleRead(ctx *eddy.Context, msg any) error {
	s := string(msg.(*buf.Bytes).Bytes())
	h.d.note("begin %s", s)
	if ctx.State() != "opened" {
		h.d.note("state %v", ctx.State())
	}
	if strings.HasPrefix(s, "wait") {
		h.g.wait(s)
	}
	h.d.note("end %s", s)
	return nil
}

func (h *lifeOnPool) HandleEvent(ctx *eddy.Context, ev any) error {
	h.d.note("event %v", ev)
	return nil
}

func (h *lifeOnPool) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, _ error) {
	h.d.note("closed %v, state %v", reason, ctx.State())
}

// TestUnorderedLife: HandleOpen returns before the first message starts, however many have come; events come one at a time
// in order while messages run; the close is told once, after the last running message has returned.
func TestUnorderedLife(t *testing.T) {
	pool := newPool(t, 4, 64)
	h := &lifeOnPool{d: new(diary), open: make(chan struct{}), g: newGates()}
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, CloseOnEOF: true, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("events", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if s, ok := strings.CutPrefix(string(m.Bytes()), "event "); ok {
				ctx.FireEvent(s)
				return nil
			}
			ctx.FireRead(m)
			return nil
		}))
		conns <- p.Conn()
		return p.Add("life", h, eddy.OnUnordered(pool))
	}}
	c := dial(t, start(t, srv))
	conn := <-conns
	io.WriteString(c, "wait a\nwait b\n")
	waitFor(t, "messages behind the open", func() bool { return srv.Stats().Loops[0].Hops >= 2 })
	if pool.Stats().Submitted != 1 {
		t.Errorf("%+v before the handler was opened", pool.Stats())
	}
	close(h.open)
	waitFor(t, "both messages", func() bool { return h.g.at("wait a") == 1 && h.g.at("wait b") == 1 })
	io.WriteString(c, "event 1\nevent 2\n")
	waitFor(t, "the events", func() bool { return h.d.has("event 2") })
	c.Close()
	<-conn.CloseFuture().Done()
	close(h.g.gate("wait b"))
	waitFor(t, "the first end", func() bool { return h.d.has("end wait b") })
	waitFor(t, "one message left", func() bool { return pool.Stats().Running == 1 })
	if h.d.has("closed peer_closed, state opened") {
		t.Error("the close was told while a message runs")
	}
	close(h.g.gate("wait a"))
	waitFor(t, "the close", func() bool { return h.d.has("closed peer_closed, state opened") })
	h.d.mu.Lock()
	first := append([]string(nil), h.d.entries...)
	h.d.mu.Unlock()
	if first[0] != "open" || first[3] != "event 1" || first[4] != "event 2" || first[5] != "end wait b" || first[6] != "end wait a" || len(first) != 8 {
		t.Errorf("noted %q", first)
	}
}

// TestUnorderedContexts: messages that run side by side have contexts of their own: deadline, end and trace. The handler
// deadline counts from the oldest one's dispatch.
func TestUnorderedContexts(t *testing.T) {
	const limit = time.Second
	pool := newPool(t, 4, 64)
	type seen struct {
		word string
		ctx  context.Context
		err  error
	}
	began, over := make(chan seen, 8), make(chan seen, 8)
	quick := make(chan struct{})
	var ends closes
	srv := &eddy.Server{Loops: 1, HandlerTimeout: limit, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			s := seen{word: string(m.Bytes())}
			ctx.SetTrace(context.WithValue(context.Background(), traceKey{}, s.word))
			s.ctx = ctx.Context()
			began <- s
			if s.word == "quick" {
				<-quick
			} else {
				<-s.ctx.Done()
			}
			s.err = s.ctx.Err()
			over <- s
			return nil
		}), eddy.OnUnordered(pool))
	}}
	clock := enginetest.NewClock(t, srv)
	due := clock.Wall().Add(limit)
	c := dial(t, start(t, srv))
	io.WriteString(c, "slow\nquick\n")
	both := map[string]context.Context{}
	for range 2 {
		s := <-began
		both[s.word] = s.ctx
		if d, ok := s.ctx.Deadline(); !ok || !d.Equal(due) {
			t.Errorf("%s: deadline %v, want %v", s.word, d, due)
		}
		if v := s.ctx.Value(traceKey{}); v != s.word {
			t.Errorf("%s has the trace %v", s.word, v)
		}
	}
	close(quick)
	if s := <-over; s.word != "quick" || s.err != nil {
		t.Errorf("%s ended with %v, want quick inside its time", s.word, s.err)
	}
	waitFor(t, "the end of the quick one's context", func() bool { return errors.Is(both["quick"].Err(), context.Canceled) })
	clock.Advance(limit + tick)
	if s := <-over; s.word != "slow" || !errors.Is(s.err, context.DeadlineExceeded) {
		t.Errorf("%s ended with %v", s.word, s.err)
	}
	ends.wait(t, eddy.CloseHandlerTimeout)
}

// spotted notes on which goroutine and how many at once it is called.
type spotted struct {
	d       *diary
	name    string
	running atomic.Int32
	most    atomic.Int32
	forward bool
}

func (h *spotted) HandleRead(ctx *eddy.Context, msg any) error {
	h.enter()
	defer h.running.Add(-1)
	h.d.note("%s %v on %s", h.name, msg, where())
	if h.forward {
		ctx.FireRead(msg)
		return nil
	}
	return ctx.Write(msg)
}

func (h *spotted) enter() {
	n := h.running.Add(1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
}

// newlineOn is an encoder that must not run twice at once.
type newlineOn struct{ spotted }

func (h *newlineOn) HandleWrite(ctx *eddy.Context, msg any) error {
	h.enter()
	defer h.running.Add(-1)
	for range 50 { // long enough for another one to come in
		runtime.Gosched()
	}
	return ctx.Write(msg.(string) + "\n")
}

func (h *newlineOn) HandleRead(ctx *eddy.Context, msg any) error {
	ctx.FireRead(msg)
	return nil
}

// TestUnorderedNeighbours: what unordered messages pass on reaches the next unordered handler of the pool on the same
// goroutine, an ordered one of the same pool on its strand, one at a time, and one on the loop there; so do their writes.
func TestUnorderedNeighbours(t *testing.T) {
	pool := newPool(t, 8, 1024)
	d := new(diary)
	encode := &newlineOn{}
	first, second := &spotted{d: d, name: "first", forward: true}, &spotted{d: d, name: "second", forward: true}
	serial, last := &spotted{d: d, name: "serial", forward: true}, &spotted{d: d, name: "last"}
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("encode", encode, eddy.On(pool))
		p.Add("string", eddy.Handle(toString))
		p.Add("first", first, eddy.OnUnordered(pool))
		p.Add("second", second, eddy.OnUnordered(pool))
		p.Add("serial", serial, eddy.On(pool))
		return p.Add("last", last)
	}})
	c := dial(t, addr)
	const n = 300
	go func() {
		for i := range n {
			fmt.Fprintln(c, i)
		}
	}()
	r := bufio.NewReader(c)
	got := map[string]bool{}
	for range n {
		s, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got[s] = true
	}
	if len(got) != n {
		t.Errorf("%d different answers of %d", len(got), n)
	}
	for _, want := range []string{"first 7 on pool", "second 7 on pool", "serial 7 on pool", "last 7 on loop"} {
		if !d.has(want) {
			t.Errorf("never: %s", want)
		}
	}
	if s, e := serial.most.Load(), encode.most.Load(); s != 1 || e != 1 {
		t.Errorf("%d at once in the ordered handler, %d in the encoder", s, e)
	}
}

// errorsOnPool answers the errors of its own messages.
type errorsOnPool struct{}

func (errorsOnPool) HandleRead(ctx *eddy.Context, msg any) error {
	switch s := string(msg.(*buf.Bytes).Bytes()); s {
	case "panic":
		panic("as asked")
	case "bad":
		return eddy.WithReason(eddy.CloseProtocolError, errors.New(s))
	case "forgiven":
		ctx.SetTrace(context.WithValue(context.Background(), traceKey{}, s))
		return errors.New(s)
	}
	return reply(ctx, msg.(*buf.Bytes))
}

func (errorsOnPool) HandleError(ctx *eddy.Context, err error) error {
	if err.Error() == "forgiven" {
		return ctx.Write([]byte(fmt.Sprintf("sorry, %v\n", ctx.Context().Value(traceKey{}))))
	}
	return err
}

// TestUnorderedErrors: an error goes to the handler's own ErrorHandler with the message's context, then onward; what
// passes the tail ends the connection with its reason, and so does a panic, which harms no other connection.
func TestUnorderedErrors(t *testing.T) {
	pool := newPool(t, 4, 64)
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("app", errorsOnPool{}, eddy.OnUnordered(pool))
		return p.Add("ends", &ends)
	}}
	addr := start(t, srv)
	c := dial(t, addr)
	r := bufio.NewReader(c)
	io.WriteString(c, "forgiven\n")
	expectLines(t, r, "sorry, forgiven")
	io.WriteString(c, "good\n")
	expectLines(t, r, "good")
	io.WriteString(c, "bad\n")
	expectEnd(t, c)
	c.Close()
	ends.wait(t, eddy.CloseProtocolError)
	c = dial(t, addr)
	io.WriteString(c, "panic\n")
	expectEnd(t, c)
	c.Close()
	ends.wait(t, eddy.CloseProtocolError, eddy.CloseInternalError)
	if n := srv.Stats().ExecutorPanics; n != 1 {
		t.Errorf("%d panics counted", n)
	}
}

// TestUnorderedDrain: a draining server waits for the answers of messages that run side by side.
func TestUnorderedDrain(t *testing.T) {
	pool := newPool(t, 4, 64)
	g := newGates()
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(g.handle), eddy.OnUnordered(pool))
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "wait a\nwait b\n")
	waitFor(t, "both messages", func() bool { return g.at("wait a")+g.at("wait b") == 2 })
	reports, ctx := make(chan eddy.DrainReport), testkit.Context(t)
	go func() {
		report, err := srv.Shutdown(ctx)
		if err != nil {
			t.Error(err)
		}
		reports <- report
	}()
	r := bufio.NewReader(c)
	close(g.gate("wait b"))
	expectLines(t, r, "wait b")
	close(g.gate("wait a"))
	expectLines(t, r, "wait a")
	expectEnd(t, c)
	c.Close()
	if report := <-reports; report.Drained != 1 || report.Forced != 0 {
		t.Errorf("%+v", report)
	}
}

// traceKey is the key of a fake tracer.
type traceKey struct{}
