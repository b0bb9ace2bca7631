package responder_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

// ask is a request of the tests' protocol: one line "ID VERB [ARGUMENT]". The answer is "ID WHAT".
type ask struct {
	id    uint64
	verb  string
	arg   int
	d     *desk
	freed atomic.Bool
}

func (a *ask) Release() {
	if a.freed.Swap(true) {
		a.d.t.Errorf("request %d was released twice", a.id)
	}
	a.d.released.Add(1)
}

// desk is a server of that protocol and what its functions have seen.
type desk struct {
	t        testing.TB
	r        *responder.Responder[*ask]
	ends     end
	gate     chan struct{} // "wait" waits for it or the end of its context
	began    chan uint64   // "wait" tells that it has begun
	contexts sync.Map      // id → context of a "wait"

	made, released atomic.Int64
	running, most  atomic.Int64 // functions of all connections
	ran            atomic.Int64
}

func newDesk(t testing.TB, pool *executor.Pool, change func(*responder.Options[*ask])) *desk {
	t.Helper()
	d := &desk{t: t, gate: make(chan struct{}), began: make(chan uint64, 4096)}
	o := responder.Options[*ask]{
		Pool:    pool,
		Run:     d.run,
		Answer:  d.answer,
		ID:      func(a *ask) uint64 { return a.id },
		Cancels: func(a *ask) (uint64, bool) { return a.id, a.verb == "cancel" },
		OneWay:  func(a *ask) bool { return a.verb == "oneway" || a.verb == "onewaywait" },
		Local:   func(a *ask) bool { return a.verb == "local" },
	}
	if change != nil {
		change(&o)
	}
	var err error
	if d.r, err = responder.New(o); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) init(p *eddy.Pipeline) error {
	p.Add("lines", line.Codec(0))
	p.Add("ask", eddy.Handle(func(ctx *eddy.Context, m *line.Line) error {
		var arg int
		f := strings.Fields(string(m.Text()))
		id, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			return err
		}
		if len(f) > 2 {
			if arg, err = strconv.Atoi(f[2]); err != nil {
				return err
			}
		}
		d.made.Add(1)
		ctx.FireRead(&ask{id: id, verb: f[1], arg: arg, d: d})
		return nil
	}))
	p.Add("responder", d.r)
	return p.Add("ends", &d.ends)
}

func (d *desk) run(ctx context.Context, a *ask) (any, error) {
	for n := d.running.Add(1); ; {
		if most := d.most.Load(); n <= most || d.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer d.running.Add(-1)
	d.ran.Add(1)
	switch a.verb {
	case "sleep":
		timer := time.NewTimer(time.Duration(a.arg) * time.Microsecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "wait", "onewaywait":
		d.contexts.Store(a.id, ctx)
		d.began <- a.id
		select {
		case <-d.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "deaf": // does not look at its context
		d.began <- a.id
		<-d.gate
	case "fail":
		return nil, errors.New("failed")
	case "panic":
		panic("on purpose")
	case "exit":
		runtime.Goexit()
	case "big":
		return strings.Repeat("x", a.arg), nil
	}
	return "ok", nil
}

func (d *desk) answer(a *ask, resp any, err error) any {
	what := fmt.Sprint(resp)
	var p *eddy.PanicError
	switch {
	case a.verb == "badanswer":
		panic("on purpose")
	case err == nil:
	case errors.As(err, &p):
		what = "panicked"
	case errors.Is(err, executor.ErrRejected):
		what = "busy"
	case errors.Is(err, executor.ErrClosed):
		what = "gone"
	case errors.Is(err, responder.ErrDraining):
		what = "draining"
	case errors.Is(err, responder.ErrDuplicate):
		what = "duplicate"
	case errors.Is(err, responder.ErrPipelined):
		what = "pipelined"
	case errors.Is(err, context.Canceled):
		what = "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		what = "late"
	default:
		what = "failed"
	}
	return []byte(fmt.Sprintf("%d %s\n", a.id, what))
}

// settle waits until every request that was made has been released.
func (d *desk) settle() {
	d.t.Helper()
	testkit.Eventually(d.t, "the release of all requests", func() bool { return d.made.Load() == d.released.Load() })
	if n := d.running.Load(); n != 0 {
		d.t.Errorf("%d functions run", n)
	}
}

// context returns the context of a "wait" that has begun.
func (d *desk) context(id uint64) context.Context {
	ctx, _ := d.contexts.Load(id)
	return ctx.(context.Context)
}

func (d *desk) waitBegan(ids ...uint64) {
	d.t.Helper()
	for range ids {
		if id := testkit.Receive(d.t, fmt.Sprint("the begin of requests ", ids), d.began); !slices.Contains(ids, id) {
			d.t.Fatalf("request %d has begun, want one of %v", id, ids)
		}
	}
}

// client is a connection to a desk.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func newClient(t testing.TB, addr string) *client {
	c := enginetest.Dial(t, addr).TCPConn
	return &client{c, t, bufio.NewReader(c)}
}

func (c *client) say(requests ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.Join(requests, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(answers ...string) {
	c.t.Helper()
	expectLines(c.t, c.r, answers...)
}

// expectAny reads the answers in any order.
func (c *client) expectAny(answers ...string) {
	c.t.Helper()
	var got []string
	for range answers {
		s, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, strings.TrimSpace(s))
	}
	slices.Sort(got)
	slices.Sort(answers)
	if !slices.Equal(got, answers) {
		c.t.Fatalf("answers %q, want %q", got, answers)
	}
}

func (c *client) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("%q, %v, want the end", rest, err)
	}
	c.Close() // the server waits for it
}

func ordering(o responder.Ordering) func(*responder.Options[*ask]) {
	return func(r *responder.Options[*ask]) { r.Ordering = o }
}

// TestResponsesByCompletion: a quick request overtakes a slow one.
func TestResponsesByCompletion(t *testing.T) {
	d := newDesk(t, newPool(t, 2, 16), nil)
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
	c.say("1 wait", "2 ok", "3 local")
	c.expectAny("2 ok", "3 ok")
	close(d.gate)
	c.expect("1 ok")
	d.settle()
}

// TestResponsesInOrder: requests run side by side and every kind of answer leaves in the order of the requests.
func TestResponsesInOrder(t *testing.T) {
	pool := newPool(t, 2, 1)
	d := newDesk(t, pool, ordering(responder.ByRequest))
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
	c.say("1 wait", "2 panic", "3 local", "1 ok", "4 exit")
	d.waitBegan(1)
	testkit.Eventually(t, "the others", func() bool { return pool.Stats().Completed >= 2 })
	c.say("5 wait")
	d.waitBegan(5) // the pool has no worker left
	c.say("6 ok", "7 ok", "8 oneway", "5 cancel")
	testkit.Eventually(t, "the rejections", func() bool { return d.r.Stats().Rejected == 2 && d.r.Stats().Canceled == 1 })
	if n := c.r.Buffered(); n > 0 {
		t.Errorf("%d bytes came before the first answer", n)
	}
	close(d.gate)
	c.expect("1 ok", "2 panicked", "3 ok", "1 duplicate", "4 failed", "5 cancelled", "6 ok", "7 busy")
	c.say("9 ok")
	c.expect("9 ok")
	d.settle()
	if most := d.most.Load(); most != 2 {
		t.Errorf("%d functions ran side by side, want 2", most)
	}
	want := responder.Stats{Failed: 2, Refused: 1, Rejected: 2, Canceled: 1, Dropped: 1} // 8 has no answer
	if got := d.r.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

// TestSerialRequests: one at a time per connection, but those of several connections side by side.
func TestSerialRequests(t *testing.T) {
	d := newDesk(t, newPool(t, 4, 16), ordering(responder.Serial))
	addr := enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init})
	a, b := newClient(t, addr), newClient(t, addr)
	a.say("1 wait", "2 ok", "3 local", "4 wait")
	d.waitBegan(1)
	b.say("11 wait", "12 ok")
	d.waitBegan(11)
	if n := d.ran.Load(); n != 2 {
		t.Errorf("%d requests have begun, want one per connection", n)
	}
	close(d.gate)
	a.expect("1 ok", "2 ok", "3 ok", "4 ok")
	b.expect("11 ok", "12 ok")
	d.settle()
}

// TestCanceledWhileItWaits: a serial request that is cancelled before its turn is not run, and answered in its turn.
func TestCanceledWhileItWaits(t *testing.T) {
	d := newDesk(t, newPool(t, 4, 16), ordering(responder.Serial))
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
	c.say("1 wait", "2 ok", "3 ok", "2 cancel", "2 cancel", "77 cancel")
	d.waitBegan(1)
	testkit.Eventually(t, "the cancellation", func() bool { return d.r.Stats().Canceled == 1 })
	close(d.gate)
	c.expect("1 ok", "2 cancelled", "3 ok")
	d.settle()
	if n := d.ran.Load(); n != 2 {
		t.Errorf("%d requests ran, want 2", n)
	}
}

// TestNoPipelining: the second request before the first response ends the connection; after it it is welcome.
func TestNoPipelining(t *testing.T) {
	d := newDesk(t, newPool(t, 2, 16), ordering(responder.NoPipelining))
	addr := enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init})
	c := newClient(t, addr)
	for i := range 20 {
		c.say(fmt.Sprint(i+1, " ok"))
		c.expect(fmt.Sprint(i+1, " ok"))
	}
	c.say("30 local", "31 local", "32 onewaywait", "33 wait") // a local one is answered at once, a one-way one never
	c.expect("30 ok", "31 ok")
	d.waitBegan(32, 33)
	c.say("34 local")
	c.expect("34 pipelined")
	c.expectEnd()
	if err := d.ends.wait(t, eddy.CloseProtocolError); !errors.Is(err, responder.ErrPipelined) {
		t.Errorf("closed with %v", err)
	}
	testkit.Eventually(t, "the end of the context of 33", func() bool { return d.running.Load() == 1 })
	close(d.gate) // for 32, which nobody waits for
	d.settle()
}

// TestPanicsAndErrors: whatever becomes of the function there is one answer, and the connection stays.
func TestPanicsAndErrors(t *testing.T) {
	var logs testkit.Output
	d := newDesk(t, newPool(t, 2, 16), nil)
	srv := &eddy.Server{Loops: 1, Init: d.init, Logger: slog.New(slog.NewTextHandler(&logs, nil))}
	c := newClient(t, enginetest.Serve(t, srv))
	for _, x := range []struct{ say, want string }{
		{"1 panic", "1 panicked"}, {"2 fail", "2 failed"}, {"3 exit", "3 failed"}, {"4 ok", "4 ok"},
	} {
		c.say(x.say)
		c.expect(x.want)
	}
	if srv.Stats().ExecutorPanics != 1 || !strings.Contains(logs.String(), "on purpose") {
		t.Errorf("%d panics counted; log %q", srv.Stats().ExecutorPanics, logs.String())
	}
	c.say("5 badanswer")
	c.expectEnd()
	d.ends.wait(t, eddy.CloseInternalError)
	d.settle()
}

// TestRequestTimeout: a request whose time is over is answered at once, also one that waits; its function is told, and
// what becomes of it is dropped. The connection goes on.
func TestRequestTimeout(t *testing.T) {
	for o := range responder.NoPipelining + 1 {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 1, 16), func(r *responder.Options[*ask]) {
				r.Ordering = o
				r.Timeout = func(a *ask) time.Duration { return time.Duration(a.arg) * time.Millisecond }
			})
			c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
			for limit := 50; len(d.began) == 0; limit *= 2 { // on a slow machine its time is over before it has begun
				c.say(fmt.Sprint("1 deaf ", limit))
				c.expect("1 late")
			}
			d.waitBegan(1)
			if o != responder.NoPipelining {
				c.say("2 wait 70", "3 wait 60", "4 wait")
				if o == responder.ByCompletion {
					c.expectAny("2 late", "3 late")
				} else {
					c.expect("2 late", "3 late")
				}
			}
			close(d.gate)
			if o == responder.NoPipelining {
				c.say("4 wait")
			}
			d.waitBegan(4)
			c.expect("4 ok")
			c.say("1 wait 60000")
			d.waitBegan(1)
			c.expect("1 ok")
			ctx, _ := d.contexts.Load(uint64(1))
			at, ok := ctx.(context.Context).Deadline()
			if left := time.Until(at); ok && (left < 30*time.Second || left > time.Minute) {
				t.Errorf("a deadline in %v, want a minute", left)
			}
			d.settle()
		})
	}
}

// TestContextsOfRequests: each request has a context that ends with it and never comes to life again.
func TestContextsOfRequests(t *testing.T) {
	const limit = time.Minute
	d := newDesk(t, newPool(t, 4, 64), nil)
	srv := &eddy.Server{Loops: 1, Init: d.init, HandlerTimeout: limit}
	clock := enginetest.NewClock(t, srv)
	c := newClient(t, enginetest.Serve(t, srv))
	c.say("1 wait", "2 wait")
	d.waitBegan(1, 2)
	first, second := d.context(1), d.context(2)
	if at, ok := first.Deadline(); !ok || !at.Equal(clock.Wall().Add(limit)) {
		t.Errorf("deadline %v, %v", at, ok)
	}
	if first.Err() != nil || first.Value("x") != nil {
		t.Errorf("alive: %v", first.Err())
	}
	derived, cancel := context.WithCancel(first)
	defer cancel()
	c.say("1 cancel")
	c.expect("1 cancelled")
	<-derived.Done()
	if !errors.Is(first.Err(), context.Canceled) || second.Err() != nil {
		t.Errorf("after the cancellation: %v and %v", first.Err(), second.Err())
	}
	close(d.gate)
	c.expect("2 ok")
	var kept []context.Context
	for i := range 100 {
		id := uint64(i + 10)
		c.say(fmt.Sprint(id, " wait"))
		c.expect(fmt.Sprint(id, " ok"))
		kept = append(kept, d.context(id))
	}
	for _, ctx := range append(kept, first, second) {
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Fatalf("a context that was kept says %v", ctx.Err())
		}
		<-ctx.Done()
		ran := make(chan struct{})
		context.AfterFunc(ctx, func() { close(ran) })
		<-ran
	}
	d.settle()
}

// TestCancelIsToldAtOnce: a function is told that its request was cancelled although the answer has to wait for its turn.
func TestCancelIsToldAtOnce(t *testing.T) {
	d := newDesk(t, newPool(t, 2, 16), ordering(responder.ByRequest))
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
	c.say("1 wait", "2 wait")
	d.waitBegan(1, 2)
	derived, stop := context.WithCancel(d.context(2))
	defer stop()
	c.say("2 cancel")
	testkit.Receive(t, "the cancellation", derived.Done())
	if err := d.context(1).Err(); err != nil {
		t.Errorf("the request before it says %v", err)
	}
	close(d.gate)
	c.expect("1 ok", "2 cancelled")
	d.settle()
}

// TestDisconnectCancels: the functions of a connection that ends are told, and what they return is released.
func TestDisconnectCancels(t *testing.T) {
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 2, 64), ordering(o))
			srv := &eddy.Server{Loops: 1, CloseOnEOF: true, Init: d.init}
			c := newClient(t, enginetest.Serve(t, srv))
			c.say("1 wait", "2 ok", "3 wait", "4 local", "5 wait", "6 ok")
			testkit.Receive(t, "the begin of a request", d.began) // 3 may be ahead of 1, which another worker has
			c.Close()
			d.settle()
			testkit.Eventually(t, "the count of the abandoned", func() bool { return d.r.Stats().Abandoned > 0 })
		})
	}
}

// TestOneWayOutlivesConnection: what the pool has of a connection's one-way requests is run though it has ended, with a
// context that says nothing of that: only the request's own timeout ends it, or the end of the server.
func TestOneWayOutlivesConnection(t *testing.T) {
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 1, 64), func(r *responder.Options[*ask]) {
				r.Ordering = o
				r.Timeout = func(a *ask) time.Duration { return time.Duration(a.arg) * time.Hour }
			})
			srv := &eddy.Server{Loops: 1, CloseOnEOF: true, Init: d.init}
			clock := enginetest.NewClock(t, srv)
			addr := enginetest.Serve(t, srv)
			c := newClient(t, addr)
			c.say("1 onewaywait", "2 oneway", "3 wait", "4 onewaywait", "5 onewaywait 1", "6 onewaywait 1")
			d.waitBegan(1)
			testkit.Eventually(t, "all of them", func() bool { return d.made.Load() == 6 })
			c.Close()
			testkit.Eventually(t, "the count of the abandoned", func() bool { return d.r.Stats().Abandoned == 1 })
			if err := d.context(1).Err(); err != nil {
				t.Errorf("the context of one that runs says %v", err)
			}
			d.gate <- struct{}{}
			d.waitBegan(4)
			if err := d.context(4).Err(); err != nil {
				t.Errorf("the context of one that waited says %v", err)
			}
			d.gate <- struct{}{}
			d.waitBegan(5)
			clock.Advance(time.Hour - 1)
			if err := d.context(5).Err(); err != nil {
				t.Errorf("before its time the context says %v", err)
			}
			clock.Advance(1)
			<-d.context(5).Done()
			if err := d.context(5).Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("at its time the context says %v", err)
			}
			d.settle() // 6 was late
			if n := d.ran.Load(); n != 4 {
				t.Errorf("%d functions ran, want 1, 2, 4 and 5", n)
			}
			if want, got := (responder.Stats{Abandoned: 1, Expired: 1, Dropped: 1}), d.r.Stats(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			c = newClient(t, addr)
			c.say("10 onewaywait 2")
			d.waitBegan(10)
			c.Close()
			testkit.Eventually(t, "its end", func() bool { return srv.Stats().Active == 0 })
			d.gate <- struct{}{}
			d.settle()
			runs := enginetest.Stats(t, srv).Loops[0].Timers
			clock.Advance(3 * time.Hour)
			if now := enginetest.Stats(t, srv).Loops[0].Timers; now != runs {
				t.Errorf("%d timers ran for requests that were over", now-runs)
			}
			c = newClient(t, addr)
			c.say("8 onewaywait", "9 oneway")
			d.waitBegan(8)
			srv.Close()
			d.settle()
			if !errors.Is(d.context(8).Err(), context.Canceled) {
				t.Error("the end of the server is not told")
			}
		})
	}
}

// TestOneWayEndsWithoutATimer: a one-way request that runs with a timeout ends with its connection if the loop has no room
// for the timer that would end it later.
func TestOneWayEndsWithoutATimer(t *testing.T) {
	d := newDesk(t, newPool(t, 2, 64), func(r *responder.Options[*ask]) {
		r.Timeout = func(a *ask) time.Duration { return time.Duration(a.arg) * time.Hour }
	})
	fill := eddy.Handle(func(ctx *eddy.Context, a *ask) error {
		if a.verb != "close" {
			ctx.FireRead(a)
			return nil
		}
		a.Release()
		for ctx.Conn().Post(func() {}) == nil {
		}
		ctx.Close(eddy.CloseNormal)
		return nil
	})
	srv := &eddy.Server{Loops: 1, TaskQueue: 8, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		if err := d.init(p); err != nil {
			return err
		}
		return p.AddBefore("responder", "fill", fill)
	}}
	c := newClient(t, enginetest.Serve(t, srv))
	c.say("1 onewaywait 1", "2 onewaywait")
	d.waitBegan(1, 2)
	c.say("3 close")
	c.expectEnd()
	testkit.Eventually(t, "the count of the abandoned", func() bool { return d.r.Stats().Abandoned == 1 })
	<-d.context(1).Done()
	if err := d.context(2).Err(); err != nil {
		t.Errorf("one without a timeout says %v", err)
	}
	close(d.gate)
	d.settle()
}

// TestInFlightBound: at the bound the connection is not read, and goes on below it; other connections do not notice.
func TestInFlightBound(t *testing.T) {
	const bound, all = 4, 200
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 16, 64), func(r *responder.Options[*ask]) { r.Ordering, r.InFlight = o, bound })
			srv := &eddy.Server{Loops: 1, Init: d.init}
			addr := enginetest.Serve(t, srv)
			c, other := newClient(t, addr), newClient(t, addr)
			var requests, answers []string
			for i := range all {
				requests = append(requests, fmt.Sprintf("%d wait", i+1))
				answers = append(answers, fmt.Sprintf("%d ok", i+1))
			}
			c.say(requests...)
			testkit.Eventually(t, "the bound", func() bool { return d.made.Load() >= bound })
			iterations := srv.Stats().Loops[0].Iterations
			for i := range 50 {
				other.say(fmt.Sprint(i+1, " ok"))
				other.expect(fmt.Sprint(i+1, " ok"))
			}
			if made := d.made.Load(); made != bound+50 {
				t.Errorf("%d requests were read, want %d", made-50, bound)
			}
			if n := srv.Stats().Loops[0].Iterations - iterations; n > 1000 {
				t.Errorf("%d iterations for 50 requests: the loop spins", n)
			}
			close(d.gate)
			if o == responder.ByCompletion {
				c.expectAny(answers...)
			} else {
				c.expect(answers...)
			}
			d.settle()
			if most := d.most.Load(); most > bound+1 {
				t.Errorf("%d side by side", most)
			}
		})
	}
}

// TestHeldResponsesAreBounded: responses that wait for their turn count as queued: they make the connection unwritable
// and pause its reads at the high watermark. Those of requests that have begun are taken beyond the maximum, and their
// connection is not taken for one whose peer does not read.
func TestHeldResponsesAreBounded(t *testing.T) {
	marks := eddy.Watermarks{Low: 1 << 10, High: 64 << 10, Max: 256 << 10}
	var conn atomic.Pointer[eddy.Conn]
	var clock *enginetest.Clock
	serve := func(t *testing.T) (*desk, *client) {
		d := newDesk(t, newPool(t, 4, 64), ordering(responder.ByRequest))
		srv := &eddy.Server{Loops: 1, Watermarks: marks, BackpressureTimeout: time.Minute, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
			conn.Store(p.Conn())
			return d.init(p)
		}}
		clock = enginetest.NewClock(t, srv)
		conn.Store(nil)
		c := newClient(t, enginetest.Serve(t, srv))
		testkit.Eventually(t, "the connection", func() bool { return conn.Load() != nil })
		return d, c
	}
	t.Run("pause", func(t *testing.T) {
		d, c := serve(t)
		c.say("1 wait", "2 big 70000")
		testkit.Eventually(t, "the response", func() bool { return conn.Load().QueuedBytes() > 70_000 })
		testkit.Eventually(t, "the mark", func() bool { return !conn.Load().Writable() })
		c.say("3 ok")
		testkit.Eventually(t, "the pause", func() bool { return conn.Load().QueuedBytes() > 70_000 && d.ran.Load() == 2 })
		close(d.gate)
		c.expect("1 ok", "2 "+strings.Repeat("x", 70_000), "3 ok")
		testkit.Eventually(t, "the end of the pause", func() bool { return conn.Load().Writable() && conn.Load().QueuedBytes() == 0 })
		d.settle()
	})
	t.Run("beyond", func(t *testing.T) {
		d, c := serve(t)
		c.say("1 wait", "2 big 60000", "3 big 300000", "4 big 300000")
		testkit.Eventually(t, "the responses", func() bool { return conn.Load().QueuedBytes() > 660_000 })
		clock.Advance(time.Hour)
		close(d.gate)
		c.expect("1 ok")
		for i, n := range []int{60_000, 300_000, 300_000} {
			c.expect(fmt.Sprint(i+2, " ", strings.Repeat("x", n)))
		}
		d.settle()
		testkit.Eventually(t, "an empty queue", func() bool { return conn.Load().QueuedBytes() == 0 })
	})
}

// TestLargeAnswersToAReader: a client that reads gets every answer, however many are asked for at once and whatever they
// come to; when their size is known, no more begin than the queue has room for.
func TestLargeAnswersToAReader(t *testing.T) {
	const asked, size = 64, 1 << 20
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 16, asked), ordering(o))
			c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
			read := func(first int) {
				var requests, answers []string
				for i := range asked {
					requests = append(requests, fmt.Sprint(first+i, " big ", size))
					answers = append(answers, fmt.Sprint(first+i, " ", strings.Repeat("x", size)))
				}
				go c.say(requests...)
				if o == responder.ByCompletion {
					c.expectAny(answers...)
				} else {
					c.expect(answers...)
				}
			}
			read(1)
			d.most.Store(0)
			read(1 + asked)
			if most := d.most.Load(); most > 8 {
				t.Errorf("%d functions ran side by side, whose answers come to %d MiB; the queue takes 7 beyond its high watermark", most, most)
			}
			d.settle()
		})
	}
}

// TestDrainWaitsForResponses: what was taken before the drain is answered, what comes later is refused, and the
// connection ends after the last response.
func TestDrainWaitsForResponses(t *testing.T) {
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			d := newDesk(t, newPool(t, 1, 64), ordering(o))
			var conn atomic.Pointer[eddy.Conn]
			srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				conn.Store(p.Conn())
				return d.init(p)
			}}
			c := newClient(t, enginetest.Serve(t, srv))
			c.say("1 wait", "2 ok", "3 oneway")
			d.waitBegan(1)
			testkit.Eventually(t, "the others", func() bool { return d.made.Load() == 3 })
			ended := make(chan eddy.DrainReport)
			go func() {
				r, _ := srv.Shutdown(t.Context())
				ended <- r
			}()
			testkit.Eventually(t, "the drain", conn.Load().Draining)
			c.say("9 local", "10 oneway")
			testkit.Eventually(t, "the refusals", func() bool { return d.r.Stats().Refused == 2 })
			close(d.gate)
			if o == responder.ByCompletion {
				c.expectAny("1 ok", "2 ok", "9 draining")
			} else {
				c.expect("1 ok", "2 ok", "9 draining")
			}
			c.expectEnd()
			if r := <-ended; r.Drained != 1 || r.Forced != 0 {
				t.Errorf("%+v", r)
			}
			d.ends.wait(t, eddy.CloseServerShutdown)
			d.settle()
		})
	}
}

// TestStoppedPool: requests that a stopped pool never runs are answered all the same.
func TestStoppedPool(t *testing.T) {
	for o := range responder.NoPipelining {
		t.Run(o.String(), func(t *testing.T) {
			pool := newPool(t, 1, 64)
			d := newDesk(t, pool, ordering(o))
			c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init}))
			c.say("1 deaf", "2 ok", "3 ok")
			d.waitBegan(1)
			testkit.Eventually(t, "the requests", func() bool { return d.made.Load() == 3 })
			if left := pool.Close(); len(left) != 0 {
				t.Errorf("the pool gave %d runners back", len(left))
			}
			close(d.gate)
			c.say("4 ok")
			switch o {
			case responder.ByCompletion:
				c.expectAny("1 ok", "2 gone", "3 gone", "4 gone")
			case responder.ByRequest:
				c.expect("1 ok", "2 gone", "3 gone", "4 gone")
			case responder.Serial: // a strand that runs runs what it has
				c.expect("1 ok", "2 ok", "3 ok", "4 gone")
			}
			d.settle()
		})
	}
}

// TestOptions: what makes no sense is refused, by name.
func TestOptions(t *testing.T) {
	pool := newPool(t, 1, 1)
	ok := responder.Options[*ask]{
		Pool:   pool,
		Run:    func(context.Context, *ask) (any, error) { return nil, nil },
		Answer: func(*ask, any, error) any { return nil },
	}
	for name, change := range map[string]func(*responder.Options[*ask]){
		"Pool is": func(o *responder.Options[*ask]) { o.Pool = nil },
		"Route are": func(o *responder.Options[*ask]) {
			o.Route = func(*ask) (*executor.Pool, error) { return nil, nil }
		},
		"Run":      func(o *responder.Options[*ask]) { o.Run = nil },
		"Answer":   func(o *responder.Options[*ask]) { o.Answer = nil },
		"Ordering": func(o *responder.Options[*ask]) { o.Ordering = responder.NoPipelining + 1 },
		"InFlight": func(o *responder.Options[*ask]) { o.InFlight = -1 },
	} {
		o := ok
		change(&o)
		if _, err := responder.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := responder.New(ok); err != nil {
		t.Error(err)
	}
	for o := range responder.NoPipelining + 1 {
		if got, err := responder.ParseOrdering(o.String()); got != o || err != nil {
			t.Errorf("%v is parsed as %v, %v", o, got, err)
		}
	}
	if _, err := responder.ParseOrdering("any"); err == nil {
		t.Error("an ordering named any")
	}
}

// TestOnAPool: a Responder that was put on a pool says so instead of racing its loop.
func TestOnAPool(t *testing.T) {
	pool := newPool(t, 1, 16)
	d := newDesk(t, pool, nil)
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("ask", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			d.made.Add(1)
			ctx.FireRead(&ask{id: 1, verb: "ok", d: d})
			return nil
		}))
		p.Add("responder", d.r, eddy.On(pool))
		return p.Add("ends", &d.ends)
	}}))
	c.say("x")
	c.expectEnd()
	d.ends.wait(t, eddy.CloseInternalError)
	d.settle()
}

// TestPhasesWithAResponder: the connection waits while requests are out, in whatever order they come back, and reads on
// when the last response has left.
func TestPhasesWithAResponder(t *testing.T) {
	d := newDesk(t, newPool(t, 2, 16), ordering(responder.ByRequest))
	var conn atomic.Pointer[eddy.Conn]
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		conn.Store(p.Conn())
		return d.init(p)
	}}))
	is := func(want eddy.Phase) {
		t.Helper()
		testkit.Eventually(t, want.String(), func() bool {
			got := make(chan eddy.Phase, 1)
			if err := conn.Load().Post(func() { got <- conn.Load().Phase() }); err != nil {
				t.Fatal(err)
			}
			return <-got == want
		})
	}
	c.say("1 wait", "2 ok")
	d.waitBegan(1)
	testkit.Eventually(t, "the second response", func() bool { return conn.Load().QueuedBytes() > 0 })
	is(eddy.PhaseWaitingForResponse)
	close(d.gate)
	c.expect("1 ok", "2 ok")
	is(eddy.PhaseReadingHeader)
	d.settle()
}
