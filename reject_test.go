package eddy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// full makes a pool of one worker with a queue of one, both taken until release is called.
func full(t *testing.T) (pool *executor.Pool, release func()) {
	t.Helper()
	pool = newPool(t, 1, 1)
	gate := make(chan struct{})
	for range 2 {
		if err := pool.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "a busy worker", func() bool { return pool.Stats().Running == 1 && pool.Stats().Queued == 1 })
	var open atomic.Bool
	release = func() {
		if open.CompareAndSwap(false, true) {
			close(gate)
		}
	}
	t.Cleanup(release)
	return pool, release
}

// expectHopError checks what a refused hop tells.
func expectHopError(t *testing.T, err error, code string, pool *executor.Pool) {
	t.Helper()
	var he *eddy.HopError
	if !errors.As(err, &he) || he.Code != code || he.Handler != "app" || he.Pool != pool.Name() {
		t.Errorf("error %v, want a HopError of handler app with code %v", err, code)
		return
	}
	want := executor.ErrRejected
	if code == "pool_closed" {
		want = executor.ErrClosed
	}
	if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), `eddy: handler "app": `+code) {
		t.Errorf("%v: is not %v", err, want)
	}
	if code == "pool_full" && (he.Running != 1 || he.Queued != 1) {
		t.Errorf("%v: %d running, %d queued", err, he.Running, he.Queued)
	}
}

// excuses is an ErrorHandler behind the one whose pool refuses.
type excuses struct {
	handled bool // answers instead of passing on
	errs    chan error
}

func (h excuses) HandleError(ctx *eddy.Context, err error) error {
	h.errs <- err
	if h.handled {
		return ctx.Write([]byte("excuse\n"))
	}
	return err
}

// TestRejectPolicies: a refused message goes to the handler's policy, which handles it or not; what it does not handle
// goes, with the same typed error, to the ErrorHandlers, and what passes the tail ends the connection with
// backpressure_limit. Ordered and unordered handlers alike.
func TestRejectPolicies(t *testing.T) {
	text := func(msg any) string { return string(msg.(*buf.Bytes).Bytes()) }
	seen := make(chan error, 1)
	for name, c := range map[string]struct {
		policy  eddy.AddOption // nil = the default
		errors  bool           // an ErrorHandler behind answers
		answer  string         // what the peer reads; "" = nothing and the end
		asked   bool           // the policy is told the error
		toErrs  bool           // the ErrorHandler is told the error
		survive bool
	}{
		"default":                  {toErrs: true},
		"close":                    {policy: eddy.RejectClose(), toErrs: true},
		"close, excused":           {policy: eddy.RejectClose(), errors: true, toErrs: true, answer: "excuse", survive: true},
		"reply":                    {policy: eddy.RejectReply(func(m any) any { return "busy " + text(m) + "\n" }), answer: "busy hello", survive: true},
		"reply without an answer":  {policy: eddy.RejectReply(func(m any) any { return nil }), survive: true},
		"reply that is no message": {policy: eddy.RejectReply(func(m any) any { return 7 }), toErrs: true},
		"function that handles": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			return ctx.Write("handled " + text(m) + "\n")
		}), asked: true, answer: "handled hello", survive: true},
		"function that passes the message on": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			ctx.FireRead(m)
			return nil
		}), asked: true, answer: "tail hello", survive: true},
		"function that does not": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			return err
		}), asked: true, toErrs: true},
		"function that does not, excused": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			return err
		}), asked: true, errors: true, toErrs: true, answer: "excuse", survive: true},
		"function that closes": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			ctx.CloseAfterFlush(eddy.CloseBackpressureLimit)
			return nil
		}), asked: true},
		"function that panics": {policy: eddy.RejectFunc(func(ctx *eddy.Context, m any, err *eddy.HopError) error {
			seen <- err
			panic("as asked")
		}), asked: true, toErrs: true},
	} {
		for _, on := range []func(*executor.Pool) eddy.AddOption{eddy.On, eddy.OnUnordered} {
			t.Run(name, func(t *testing.T) {
				pool, release := full(t)
				errs := make(chan error, 1)
				var ends closes
				opts := []eddy.AddOption{on(pool)}
				if c.policy != nil {
					opts = append(opts, c.policy)
				}
				srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
					p.Add("lines", &lines{})
					p.Add("app", eddy.Handle(reply), opts...)
					p.Add("tail", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.Write("tail " + text(m) + "\n") }))
					p.Add("errors", excuses{c.errors, errs})
					return p.Add("ends", &ends)
				}}
				conn := dial(t, start(t, srv))
				r := bufio.NewReader(conn)
				io.WriteString(conn, "hello\n")
				if c.asked {
					expectHopError(t, <-seen, "pool_full", pool)
				}
				if c.toErrs {
					err := <-errs
					var pe *eddy.PanicError
					if !errors.As(err, &pe) && name != "reply that is no message" {
						expectHopError(t, err, "pool_full", pool)
					}
				}
				if c.answer != "" {
					expectLines(t, r, c.answer)
				}
				waitFor(t, "the refusal", func() bool { return srv.Stats().Loops[0].HopRejects == 1 })
				release()
				if !c.survive {
					expectEnd(t, conn)
					conn.Close()
					want := eddy.CloseBackpressureLimit
					if strings.Contains(name, "panics") || name == "reply that is no message" {
						want = eddy.CloseInternalError
					}
					ends.wait(t, want)
					return
				}
				waitFor(t, "room", func() bool { return pool.Stats().Running == 0 })
				io.WriteString(conn, "again\n")
				expectLines(t, r, "again")
			})
		}
	}
}

// TestRejectCodes: the error says whether the pool is full, the connection has too much there, or the pool is closed.
func TestRejectCodes(t *testing.T) {
	for _, c := range []struct {
		code    string
		prepare func(pool *executor.Pool)
		fire    int // messages that one line becomes
	}{
		{"pool_full", func(pool *executor.Pool) {
			for pool.SubmitFunc(func() {}) == nil {
			}
		}, 1},
		{"connection_full", func(*executor.Pool) {}, 2000},
		{"pool_closed", func(pool *executor.Pool) { pool.Close() }, 1},
	} {
		for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
			t.Run(c.code+" "+name, func(t *testing.T) {
				pool := newPool(t, 1, 4096)
				gate := make(chan struct{})
				if err := pool.SubmitFunc(func() { <-gate }); err != nil {
					t.Fatal(err)
				}
				waitFor(t, "a busy worker", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
				c.prepare(pool)
				got := make(chan *eddy.HopError, 4096)
				srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
					p.Add("lines", &lines{})
					p.Add("many", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
						for range c.fire {
							ctx.FireRead("message")
						}
						return nil
					}))
					return p.Add("app", eddy.Handle(func(*eddy.Context, string) error { return nil }), on(pool),
						eddy.RejectFunc(func(_ *eddy.Context, _ any, err *eddy.HopError) error { got <- err; return nil }))
				}}
				conn := dial(t, start(t, srv))
				io.WriteString(conn, "go\n")
				err := <-got
				if err.Code != c.code {
					t.Errorf("%v, want code %v", err, c.code)
				}
				if c.code == "connection_full" && !strings.Contains(err.Error(), "limit of 1024") {
					t.Errorf("%v does not name the limit", err)
				}
				close(gate)
			})
		}
	}
}

// TestRejectPause: a message that the pool has no room for is kept and its connection's reads pause, without a spin;
// others on the loop are served. When there is room it is handled, in order, and everything after it.
func TestRejectPause(t *testing.T) {
	for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
		t.Run(name, func(t *testing.T) {
			pool, release := full(t)
			onLoop := make(chan bool, 1)
			srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				if <-onLoop {
					return p.Add("app", eddy.Handle(reply))
				}
				return p.Add("app", eddy.Handle(reply), on(pool), eddy.RejectPause())
			}}
			addr := start(t, srv)
			onLoop <- false
			c := dial(t, addr)
			var want []string
			for i := range 500 {
				want = append(want, fmt.Sprint(i))
			}
			go io.WriteString(c, strings.Join(want, "\n")+"\n")
			waitFor(t, "the refusal", func() bool { return srv.Stats().Loops[0].HopWaits == 1 })
			onLoop <- true
			other := dial(t, addr)
			r := bufio.NewReader(other)
			before := srv.Stats().Loops[0]
			for range 20 {
				io.WriteString(other, "ping\n")
				expectLines(t, r, "ping")
			}
			st := srv.Stats().Loops[0]
			if st.Hops != 1 || st.HopWaits != 1 || st.HopRejects != 1 {
				t.Errorf("%d hops, %d refused, %d kept: one message should wait and no more be read", st.Hops, st.HopRejects, st.HopWaits)
			}
			if n := st.Iterations - before.Iterations; n > 200 {
				t.Errorf("%d iterations for 20 messages: the loop spins", n)
			}
			release()
			rc := bufio.NewReader(c)
			if name == "ordered" {
				expectLines(t, rc, want...)
				return
			}
			got := map[string]bool{}
			for range want {
				s, err := rc.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				got[s] = true
			}
			if len(got) != len(want) {
				t.Errorf("%d different answers, want %d", len(got), len(want))
			}
		})
	}
}

// TestRejectPauseManyConnections: far more connections than a small pool can hold send without pause, and some leave in
// the middle. Each message of the others is answered once; nobody waits for ever for room that somebody else did not use.
func TestRejectPauseManyConnections(t *testing.T) {
	for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, 2, 2)
			srv := &eddy.Server{Loops: 2, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				return p.Add("app", eddy.Handle(reply), on(pool), eddy.RejectPause())
			}}
			addr := start(t, srv)
			const conns, each = 40, 50
			errs := make(chan error, conns)
			gate := make(chan struct{})
			for range 2 { // until somebody waits
				if err := pool.SubmitFunc(func() { <-gate }); err != nil {
					t.Fatal(err)
				}
			}
			for i := range conns {
				c := dial(t, addr)
				go func() { errs <- chatter(c, each, i%4 == 0) }()
			}
			waitFor(t, "somebody who waits", func() bool { return srv.Stats().Loops[0].HopWaits+srv.Stats().Loops[1].HopWaits > 0 })
			close(gate)
			for range conns {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// chatter sends lines and counts answers, or leaves after a few.
func chatter(c net.Conn, n int, leaves bool) error {
	for i := range n {
		fmt.Fprintln(c, i)
	}
	r := bufio.NewReader(c)
	for i := range n {
		if leaves && i == 5 {
			return c.(*net.TCPConn).SetLinger(0)
		}
		if _, err := r.ReadString('\n'); err != nil {
			return fmt.Errorf("answer %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// TestRejectPauseEnds: what waits for room does not outlive its connection or its pool: the handler deadline ends it, a
// closed pool refuses it to the ErrorHandlers, and a connection that has gone leaves its place to the next one.
func TestRejectPauseEnds(t *testing.T) {
	setup := func(t *testing.T, srv *eddy.Server) (*executor.Pool, func(), string, chan error, *closes) {
		pool, release := full(t)
		errs, ends := make(chan error, 8), new(closes)
		srv.Loops, srv.Logger = 1, quiet()
		srv.Init = func(p *eddy.Pipeline) error {
			p.Add("lines", &lines{})
			p.Add("app", eddy.Handle(reply), eddy.On(pool), eddy.RejectPause())
			p.Add("errors", excuses{false, errs})
			return p.Add("ends", ends)
		}
		return pool, release, start(t, srv), errs, ends
	}
	waits := func(t *testing.T, srv *eddy.Server, n uint64) {
		t.Helper()
		waitFor(t, "the refusal", func() bool { return srv.Stats().Loops[0].HopWaits == n })
	}
	t.Run("deadline", func(t *testing.T) {
		srv := &eddy.Server{HandlerTimeout: 50e6}
		_, _, addr, _, ends := setup(t, srv)
		c := dial(t, addr)
		io.WriteString(c, "hello\n")
		expectEnd(t, c)
		ends.wait(t, eddy.CloseHandlerTimeout)
	})
	t.Run("pool closed", func(t *testing.T) {
		srv := &eddy.Server{}
		pool, _, addr, errs, ends := setup(t, srv)
		c := dial(t, addr)
		io.WriteString(c, "hello\n")
		waits(t, srv, 1)
		pool.Close()
		expectHopError(t, <-errs, "pool_closed", pool)
		expectEnd(t, c)
		c.Close()
		ends.wait(t, eddy.CloseBackpressureLimit)
	})
	t.Run("connection gone", func(t *testing.T) {
		srv := &eddy.Server{}
		_, release, addr, _, ends := setup(t, srv)
		first, second := dial(t, addr), dial(t, addr)
		io.WriteString(first, "first\n")
		waits(t, srv, 1)
		io.WriteString(second, "second\n")
		waits(t, srv, 2)
		first.(*net.TCPConn).SetLinger(0)
		first.Close()
		ends.wait(t, eddy.CloseIOError)
		release()
		expectLines(t, bufio.NewReader(second), "second")
	})
	t.Run("server closed", func(t *testing.T) {
		srv := &eddy.Server{}
		_, _, addr, _, ends := setup(t, srv)
		c := dial(t, addr)
		io.WriteString(c, "hello\n")
		waits(t, srv, 1)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		ends.wait(t, eddy.CloseServerShutdown)
	})
}

// TestRejectPauseBehindAnotherPool: messages that were on their way through another pool when one was kept stay behind it,
// in order, though reads have paused long before they come. They may be more than a strand takes from reading.
func TestRejectPauseBehindAnotherPool(t *testing.T) {
	second, release := full(t)
	firstPool := newPool(t, 1, 16)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("string", eddy.Handle(toString))
		p.Add("first", eddy.Handle(func(ctx *eddy.Context, m string) error {
			for part := range 3 {
				ctx.FireRead(fmt.Sprint(m, " ", part))
			}
			return nil
		}), eddy.On(firstPool))
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m string) error { return ctx.Write(m + "\n") }), eddy.On(second), eddy.RejectPause())
	}}
	c := dial(t, start(t, srv))
	var sent, want []string
	for i := range 400 {
		sent = append(sent, fmt.Sprint(i))
		for part := range 3 {
			want = append(want, fmt.Sprint(i, " ", part))
		}
	}
	go io.WriteString(c, strings.Join(sent, "\n")+"\n")
	waitFor(t, "a quiet connection", func() bool {
		st := firstPool.Stats()
		return srv.Stats().Loops[0].HopWaits == 1 && st.Running == 0 && st.Queued == 0
	})
	release()
	expectLines(t, bufio.NewReader(c), want...)
}

// TestRefusedErrorGoesOn: an error whose ErrorHandler cannot be reached, because its pool is full, goes to the next one.
func TestRefusedErrorGoesOn(t *testing.T) {
	pool, release := full(t)
	defer release()
	errs := make(chan error, 1)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return errors.New("its own") }))
		p.Add("unreachable", excuses{true, make(chan error)}, eddy.On(pool))
		return p.Add("errors", excuses{true, errs})
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "hello\n")
	if err := <-errs; err == nil || err.Error() != "its own" {
		t.Errorf("the next ErrorHandler was told %v", err)
	}
	expectLines(t, bufio.NewReader(c), "excuse")
}

// TestRefusedWriteIsTold: who writes through an encoder whose pool is full is given the error, and the connection, whose
// stream would have a hole, ends.
func TestRefusedWriteIsTold(t *testing.T) {
	pool, release := full(t)
	defer release()
	got := make(chan error, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("app", newline{}, eddy.OnUnordered(pool)) // messages, for which it has no order, pass it by
		p.Add("writer", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			got <- ctx.Write("answer")
			return nil
		}))
		return p.Add("ends", &ends)
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "hello\n")
	expectHopError(t, <-got, "pool_full", pool)
	expectEnd(t, c)
	c.Close()
	ends.wait(t, eddy.CloseBackpressureLimit)
}
