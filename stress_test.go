package eddy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// chaos is a handler that does everything a handler may do, by chance, and keeps the books.
type chaos struct {
	mu                   sync.Mutex
	rnd                  *rand.Rand
	opened, closed, late atomic.Int64
}

func (h *chaos) roll(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rnd.IntN(n)
}

// chaosState is the state of one chaos handler on one connection.
type chaosState struct{ inside, ended bool }

func (h *chaos) HandleOpen(ctx *eddy.Context) error {
	h.opened.Add(1)
	ctx.SetState(new(chaosState))
	return nil
}

func (h *chaos) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	h.closed.Add(1)
	if st, ok := ctx.State().(*chaosState); ok {
		if st.ended || st.inside {
			h.late.Add(1)
		}
		st.ended = true
	}
	switch h.roll(20) {
	case 0:
		panic("in HandleClose")
	case 1:
		_ = ctx.Write([]byte("late"))
	}
}

func (h *chaos) HandleError(_ *eddy.Context, err error) error {
	if h.roll(40) == 0 {
		panic("in HandleError")
	}
	return err
}

func (h *chaos) HandleWritability(ctx *eddy.Context, writable bool) error {
	if writable && h.roll(4) == 0 {
		return ctx.WriteBytes(make([]byte, 3000))
	}
	return nil
}

func (h *chaos) HandleEvent(ctx *eddy.Context, ev any) error {
	if h.roll(50) == 0 {
		panic("in HandleEvent")
	}
	ctx.FireEvent(ev)
	return nil
}

func (h *chaos) HandleWrite(ctx *eddy.Context, msg any) error {
	if h.roll(50) == 0 {
		return nil // dropped
	}
	return ctx.Write(msg)
}

func (h *chaos) HandleRead(ctx *eddy.Context, msg any) error {
	st, ok := ctx.State().(*chaosState)
	if ok && (st.ended || st.inside) {
		h.late.Add(1)
	}
	if ok {
		st.inside = true
		defer func() { st.inside = false }()
	}
	c := ctx.Conn()
	switch h.roll(60) {
	case 0:
		c.Close(eddy.CloseNormal)
	case 1:
		c.CloseAfterFlush(eddy.CloseNormal)
	case 2:
		panic("in HandleRead")
	case 3:
		return errors.New("in HandleRead")
	case 4, 5, 6, 7:
		c.PauseRead()
		go func() {
			time.Sleep(time.Duration(h.roll(2000)) * time.Microsecond)
			c.ResumeRead()
		}()
	case 8, 9:
		_ = c.Post(func() {
			if h.roll(4) == 0 {
				panic("in Post")
			}
		})
	case 10, 11:
		c.Begin()
		go func() { _ = c.Write([]byte("from elsewhere")); c.End() }()
	case 12, 13:
		ctx.FireEvent("event")
	case 14:
		_ = c.Write(make([]byte, 40<<10))
	case 15:
		_ = ctx.Write([][]byte{[]byte("a"), make([]byte, 2000), []byte("b")})
	case 16:
		time.Sleep(time.Duration(h.roll(300)) * time.Microsecond)
	}
	if h.roll(3) == 0 {
		_ = ctx.WriteBytes([]byte("reply"))
	}
	ctx.FireRead(msg)
	return nil
}

// chaosLoop adds what is allowed on the loop only.
type chaosLoop struct{ chaos }

func (h *chaosLoop) HandleRead(ctx *eddy.Context, msg any) error {
	switch h.roll(60) {
	case 0, 1:
		_, _ = ctx.After(time.Duration(h.roll(30))*time.Millisecond, func() {
			if h.roll(4) == 0 {
				panic("in a timer")
			}
			_ = ctx.WriteBytes([]byte("timer"))
		})
	case 2:
		name := fmt.Sprint("extra ", h.roll(3))
		if ctx.Pipeline().Add(name, &eventless{}) != nil {
			_ = ctx.Pipeline().Remove(name)
		}
	case 3:
		_ = ctx.Pipeline().Replace("lines", "lines", &lines{})
	}
	return h.chaos.HandleRead(ctx, msg)
}

type eventless struct{}

func (*eventless) HandleRead(ctx *eddy.Context, msg any) error { ctx.FireRead(msg); return nil }

// chaosClient talks until the connection ends or its script does, in one of the ways peers end.
func chaosClient(addr string, r *rand.Rand) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	t := c.(*net.TCPConn)
	reads := make(chan struct{})
	slow := r.IntN(4) == 0
	go func() {
		defer close(reads)
		if !slow {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	for range r.IntN(20) {
		var b []byte
		for range 1 + r.IntN(100) {
			b = append(append(b, make([]byte, r.IntN(60))...), '\n')
		}
		if r.IntN(4) == 0 {
			b = b[:len(b)-1]
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
	switch r.IntN(4) {
	case 0:
		_ = t.SetLinger(0)
	case 1:
		_ = t.CloseWrite()
		<-reads
	case 2:
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
}

// TestChaos mixes everything, then drains or closes the server while it goes on, and compares the books: each handler
// told one close for each opening, nothing open, nothing left behind (the leak check of the package sees goroutines).
func TestChaos(t *testing.T) {
	for i := range 6 {
		seed := uint64(i + 1)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runChaos(t, seed) })
	}
}

func runChaos(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	small, err := executor.NewFixed(executor.Options{Name: "small", Workers: 1, Queue: 4, OnPanic: func(any, []byte) {}})
	if err != nil {
		t.Fatal(err)
	}
	large, err := executor.NewFixed(executor.Options{Name: "large", Workers: 4, Queue: 4096, OnPanic: func(any, []byte) {}})
	if err != nil {
		t.Fatal(err)
	}
	newChaos := func() chaos { return chaos{rnd: rand.New(rand.NewPCG(seed, r.Uint64()))} }
	onLoop := &chaosLoop{newChaos()}
	first, second := newChaos(), newChaos()
	srv := &eddy.Server{Loops: 2, Logger: quiet(), CloseOnEOF: seed%2 != 0, Overflow: eddy.OverflowPolicy(seed / 2 % 2),
		Watermarks: eddy.Watermarks{Low: 4 << 10, High: 16 << 10, Max: 64 << 10}, TaskQueue: 512,
		IdleTimeout: 300 * time.Millisecond, FlushTimeout: 100 * time.Millisecond, LingerTimeout: 50 * time.Millisecond,
		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", &lines{})
			p.Add("loop", onLoop)
			p.Add("first", &first, eddy.On(large))
			if r := onLoop.roll(3); r == 0 {
				p.Add("small", &second, eddy.On(small), eddy.RejectFunc(func(ctx *eddy.Context, _ any, _ *eddy.HopError) error { return ctx.WriteBytes([]byte("busy")) }))
			} else if r == 1 {
				p.Add("second", &second, eddy.On(large))
			}
			return p.Add("tail", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
		}}
	addr := start(t, srv)
	var wg sync.WaitGroup
	for range 12 {
		cr := rand.New(rand.NewPCG(seed, r.Uint64()))
		wg.Go(func() {
			for range 12 {
				chaosClient(addr, cr)
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if seed%3 == 0 {
			wg.Wait() // in peace
		} else {
			time.Sleep(time.Duration(50*seed) * time.Millisecond)
		}
		if seed%2 == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, _ = srv.Shutdown(ctx)
		}
		_ = srv.Close()
	}()
	wg.Wait()
	<-stopped
	for _, p := range []*executor.Pool{small, large} {
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	st := srv.Stats()
	if st.Active != 0 {
		t.Errorf("%d connections are open", st.Active)
	}
	var opened, closed uint64
	for _, l := range st.Loops {
		opened += l.Opened
		if l.Active != 0 || l.WriteInterest != 0 || l.PhaseViolations != 0 || l.TaskQueueDepth != 0 {
			t.Errorf("loop %s: %+v", l.Name, l)
		}
	}
	for reason, n := range st.Closed {
		if reason != eddy.CloseAdmissionRejected { // when the task queue of each loop was full
			closed += n
		}
	}
	if opened != closed {
		t.Errorf("%d connections opened, %d closed", opened, closed)
	}
	if n := onLoop.closed.Load(); uint64(n) != opened {
		t.Errorf("%d closes told on the loop, %d connections", n, opened)
	}
	if n := first.closed.Load(); uint64(n) != opened {
		t.Errorf("%d closes told on the pool, %d connections", n, opened)
	}
	for name, h := range map[string]*chaos{"loop": &onLoop.chaos, "first": &first, "second": &second} {
		if n := h.late.Load(); n != 0 {
			t.Errorf("handler %s was called %d times after its close or inside another call", name, n)
		}
	}
	t.Logf("%d connections, closed %v", opened, st.Closed)
}
