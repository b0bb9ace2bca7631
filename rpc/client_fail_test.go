package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// TestGoAway: what is in flight on the connection finishes, new calls have another one, and the old one ends.
func TestGoAway(t *testing.T) {
	held, release, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			switch {
			case c.n > 1:
				c.answer(q.id, 0, "second")
			case q.method == "Hold":
				c.answer(0, 65, rawError(0, "going"))
				close(held)
				<-release
				c.answer(q.id, 0, "held")
			default:
				t.Errorf("a request after GOAWAY: %+v", q)
			}
		}
		if c.n == 1 {
			close(over)
		}
	})
	cl := client(t, ClientOptions{WaitForReady: true}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	<-held
	testkit.Eventually(t, "GOAWAY", func() bool { return cl.Stats().GoAways == 1 })
	for range 3 {
		if got, err := invoke(context.Background(), cl, "Echo", ""); got != "second" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	close(release)
	if resp, err := f.Wait(context.Background()); err != nil || string(*resp) != "held" {
		t.Error(err)
	}
	<-over
	if st := cl.Stats(); st.Lost != 0 || st.Connections != 1 {
		t.Errorf("%+v", st)
	}
}

// TestUnavailable: what a server certainly did not execute is asked of the others, of each address once, and then ends with what the last one said.
func TestUnavailable(t *testing.T) {
	var asked [3]atomic.Int64
	refuse := func(i int) func(*stubConn) {
		return func(c *stubConn) {
			for q := c.next(); q != nil; q = c.next() {
				asked[i].Add(1)
				c.answer(q.id, 8, rawError(30, fmt.Sprint("draining ", i)))
			}
		}
	}
	a, b, ok := newStub(t, refuse(0)), newStub(t, refuse(1)), newStub(t, names("ok"))
	cl := client(t, ClientOptions{ConnsPerAddr: 3}, a.addr(), b.addr())
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 6 })
	_, err := invoke(context.Background(), cl, "Echo", "")
	if e := asError(t, err); !errors.Is(err, ErrUnavailable) || e.Executed != ExecutedNo || e.RetryAfter != 30*time.Millisecond || !strings.Contains(e.Message, "draining") {
		t.Errorf("%+v", e)
	}
	if x, y := asked[0].Load(), asked[1].Load(); x+y != 4 || x != 2 || y != 2 { // its own attempt, and one to fail over to each
		t.Errorf("asked %d and %d times", x, y)
	}
	if n := cl.Stats().Failovers; n != 4 { // the last one finds nobody
		t.Errorf("%d failovers", n)
	}
	big := strings.Repeat("x", 100_000) // given away by reference, and sent again
	cl = client(t, ClientOptions{}, a.addr(), ok.addr())
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 2 })
	for range 10 {
		if got, err := invoke(context.Background(), cl, "Who", big); got != "ok" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for range 10 {
		resp, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Who", text("")).Wait(context.Background())
		if err != nil || string(*resp) != "ok" {
			t.Error(err)
		}
	}
}

// TestOneFailoverPerAddress: an address is asked twice at most, and a connection once.
func TestOneFailoverPerAddress(t *testing.T) {
	a, b := &peer{}, &peer{}
	w := func(p *peer) *wire { return &wire{link: &link{peer: p}} }
	a1, a2, a3, b1 := w(a), w(a), w(a), w(b)
	c := &call{refusals: refusals{refused: []*wire{a1}}}
	if !c.mayTry(a) || !c.mayTry(b) || c.attempts(b1) != 0 || c.attempts(a2) != 1 || c.attempts(a1) < 2 {
		t.Error(c.attempts(b1), c.attempts(a2), c.attempts(a1))
	}
	c.refused = append(c.refused, a2)
	if c.mayTry(a) || !c.mayTry(b) || c.attempts(a3) < 2 || c.attempts(a2) < 2 || c.attempts(b1) != 0 {
		t.Error(c.attempts(a3), c.attempts(a2), c.attempts(b1))
	}
}

// fill gives a client's only connection, to a deaf server, more than the system takes, so that what is called after it stays behind.
func fill(t *testing.T, cl *Client, method string) (calls []*Future[[]byte]) {
	t.Helper()
	const most = 16 << 20 // more than the buffers of both sides, however late it is seen that they are full
	w := cl.routes.Load().all[0]
	body := text(strings.Repeat("x", 1<<20))
	for range most >> 20 {
		calls = append(calls, InvokeAsync[[]byte](context.Background(), cl, testKey, method, body))
	}
	testkit.Eventually(t, "a connection that is stuck", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.out.stalled && w.out.bytes > 0
	})
	return calls
}

// TestUnsent: requests that a lost connection had not taken go to another one; those that it had may have been executed.
func TestUnsent(t *testing.T) {
	cut := make(chan struct{})
	deaf := newDeaf(t, cut)
	cl := client(t, ClientOptions{MaxQueued: 1 << 30, MaxPayload: 2 << 20}, deaf.addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	big := fill(t, cl, "Who")
	var small []*Future[[]byte]
	for range 100 {
		small = append(small, InvokeAsync[[]byte](context.Background(), cl, testKey, "Who", text("")))
	}
	if err := Send(context.Background(), cl, testKey, "Log", text("")); err != nil {
		t.Fatal(err)
	}
	ok := newStub(t, names("ok"))
	cl.apply(discovery.Addrs(deaf.addr(), ok.addr()))
	testkit.Eventually(t, "the other connection", func() bool { return cl.Stats().Connections == 2 })
	close(cut)
	for _, f := range small {
		if resp, err := f.Wait(context.Background()); err != nil || string(*resp) != "ok" {
			t.Errorf("a request that was not sent: %v", err)
		}
	}
	lost := 0
	for _, f := range big {
		_, err := f.Wait(context.Background())
		if err == nil {
			continue
		}
		if e := asError(t, err); !errors.Is(err, ErrConnection) || e.Executed != ExecutedMaybe {
			t.Errorf("%+v", e)
		}
		lost++
	}
	if lost == 0 {
		t.Error("no request was lost with its connection")
	}
	testkit.Eventually(t, "the one-way request", func() bool { return cl.Stats().OneWays == 1 })
}

// TestStuckQueueIsCanceled: calls that are given up while the connection takes nothing leave no more behind than a bounded
// part of the queue.
func TestStuckQueueIsCanceled(t *testing.T) {
	cut := make(chan struct{})
	deaf := newDeaf(t, cut)
	defer close(cut)
	cl := client(t, ClientOptions{MaxQueued: 1 << 30, MaxPayload: 2 << 20}, deaf.addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	fill(t, cl, "Hold")
	w := cl.routes.Load().all[0]
	_, err := invoke(context.Background(), cl, "Hold", "x", CallTimeout(10*time.Millisecond))
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	w.mu.Lock()
	before, entries := w.out.bytes, w.out.len()
	w.mu.Unlock()
	for range 2000 {
		if !InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("x")).Cancel() {
			t.Fatal("not cancelled")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.out.len(); w.out.bytes > before || n > entries+200 { // fewer where the system took some meanwhile
		t.Errorf("%d bytes, %d entries; before %d and %d", w.out.bytes, n, before, entries)
	}
}

// freePort returns an address that nobody listens on.
func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestAllDown: calls fail at once, and say why; with WaitForReady they wait as long as their time allows; and when a
// server comes up they are served.
func TestAllDown(t *testing.T) {
	addr, other := freePort(t), freePort(t)
	cl := client(t, ClientOptions{}, addr, other)
	testkit.Eventually(t, "both to be down", func() bool {
		_, err := invoke(context.Background(), cl, "Echo", "")
		e := asError(t, err)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrConnection) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "refused") {
			t.Fatalf("%+v", e)
		}
		return cl.Stats().DialFailures > 4
	})
	patient := client(t, ClientOptions{WaitForReady: true}, addr, other)
	_, err := invoke(context.Background(), patient, "Echo", "", CallTimeout(50*time.Millisecond))
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "waiting for a connection") {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { _, err := invoke(ctx, patient, "Echo", ""); ended <- err }()
	testkit.Eventually(t, "the call to wait", func() bool { return patient.Stats().Waiting == 1 })
	cancel()
	err = testkit.Receive(t, "its end", ended)
	if e := asError(t, err); !errors.Is(err, ErrCanceled) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	f := InvokeAsync[[]byte](context.Background(), patient, testKey, "Echo", text("at last"))
	newStubAt(t, addr, echoes)
	if resp, err := f.Wait(context.Background()); err != nil || string(*resp) != "at last" {
		t.Error(err)
	}
	if n := patient.Stats().Waiting; n != 0 {
		t.Errorf("%d still wait", n)
	}
	testkit.Eventually(t, "the other client", func() bool {
		got, err := invoke(context.Background(), cl, "Echo", "x")
		return got == "x" && err == nil
	})
}

// TestBackoff: a client has the defaults of its options.
func TestBackoff(t *testing.T) {
	b, err := Backoff{}.withDefaults()
	if err != nil || b != (Backoff{100 * time.Millisecond, 10 * time.Second, 0.2}) {
		t.Errorf("%+v, %v", b, err)
	}
	if b, _ := (Backoff{Jitter: -1}).withDefaults(); b.Jitter != 0 {
		t.Errorf("%+v", b)
	}
}

// TestFlappingServer: one that accepts and hangs up is not asked without a pause.
func TestFlappingServer(t *testing.T) {
	s := newStub(t, func(c *stubConn) {})
	var pauses atomic.Int64
	cl := client(t, ClientOptions{Backoff: Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}, Rand: func() float64 { pauses.Add(1); return 1 }}, s.addr())
	testkit.Eventually(t, "attempts", func() bool { return cl.Stats().Dials >= 5 })
	if n := pauses.Load(); n < 4 {
		t.Errorf("%d pauses between 5 attempts", n)
	}
}

// TestRetryAfterHoldsConnects: a server that asks for time is given it.
func TestRetryAfterHoldsConnects(t *testing.T) {
	var began time.Time
	again := make(chan time.Duration, 1)
	s := newStub(t, func(c *stubConn) {
		switch c.n {
		case 1:
			began = time.Now()
			c.answer(0, 5, rawError(200, "full"))
			c.next()
		case 2:
			again <- time.Since(began)
			echoes(c)
		}
	})
	client(t, ClientOptions{Backoff: Backoff{Min: time.Millisecond, Max: time.Minute}}, s.addr())
	if d := <-again; d < 200*time.Millisecond {
		t.Errorf("back after %v", d)
	}
}

// TestClose: calls in flight, calls that wait and calls that come later end with ErrClosed, once each; a second Close is none.
func TestClose(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		for c.next() != nil {
		}
	})
	for _, addr := range []string{s.addr(), "192.0.2.1:9"} { // nobody answers from there
		cl := client(t, ClientOptions{WaitForReady: true, DialTimeout: time.Hour}, addr)
		var ended atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("")).Then(func(_ *[]byte, err error) {
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				ended.Add(1)
			})
			wg.Add(1)
			go func() {
				defer wg.Done()
				if _, err := invoke(context.Background(), cl, "Hold", ""); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}()
		}
		testkit.Eventually(t, "the calls", func() bool { return cl.Stats().Active == 40 })
		for range 2 {
			if err := cl.Close(); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		if n := ended.Load(); n != 20 {
			t.Errorf("%d callbacks, want 20", n)
		}
		_, err := invoke(context.Background(), cl, "Hold", "")
		if e := asError(t, err); !errors.Is(err, ErrClosed) || e.Executed != ExecutedNo {
			t.Errorf("%+v", e)
		}
		if _, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("")).Wait(context.Background()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := Send(context.Background(), cl, testKey, "Hold", text("")); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := cl.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestShutdown lets calls end and what was sent one-way arrive; at its deadline it ends them.
func TestShutdown(t *testing.T) {
	held, release := make(chan struct{}, 2), make(chan struct{})
	var bytes atomic.Int64
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			switch {
			case q.op == 3:
				bytes.Add(int64(len(q.body)))
			case q.method == "Hold":
				held <- struct{}{}
				go func() { <-release; c.answer(q.id, 0, "held") }()
			}
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	<-held
	big := text(strings.Repeat("x", 1_000_000))
	for range 3 {
		if err := Send(context.Background(), cl, testKey, "Log", big); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { done <- cl.Shutdown(context.Background()) }()
	testkit.Eventually(t, "the refusal of new calls", func() bool { return cl.life.closing.Load() })
	if _, err := invoke(context.Background(), cl, "Hold", ""); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if resp, err := f.Wait(context.Background()); err != nil || string(*resp) != "held" {
		t.Error(err)
	}
	testkit.Eventually(t, "the one-way bytes", func() bool { return bytes.Load() == 3_000_000 })

	hangs := newStub(t, func(c *stubConn) {
		for c.next() != nil {
		}
	})
	cl = client(t, ClientOptions{}, hangs.addr())
	f = InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	ctx, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	if err := cl.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := f.Wait(context.Background()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestGroupEnds: a client on loops that are closed under it ends its calls.
func TestGroupEnds(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		for c.next() != nil {
		}
	})
	g := &eddy.Group{Loops: 2, Logger: quiet}
	cl := client(t, ClientOptions{Group: g, Timeout: time.Second}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""), CallTimeout(-1))
	testkit.Eventually(t, "the call to be sent", func() bool { st := cl.Stats(); return st.Connections == 1 && st.Waiting == 0 })
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := f.Wait(context.Background())
	if !errors.Is(err, ErrConnection) {
		t.Error(err)
	}
	_, err = invoke(context.Background(), cl, "Hold", "")
	asError(t, err)
	if err := Send(context.Background(), cl, testKey, "Hold", text("")); err != nil {
		asError(t, err)
	}
}

// TestKilledUnderLoad: a server that is killed and started again, over and over, under calls of every kind: each ends once, in its
// own response or in a typed error.
func TestKilledUnderLoad(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 4
	}
	addr := freePort(t)
	start := func() *stub { return newStubAt(t, addr, echoes) }
	s := start()
	cl := client(t, ClientOptions{ConnsPerAddr: 2, Timeout: 2 * time.Second}, addr)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var ok, failed atomic.Int64
	judge := func(want, got string, err error) {
		if err == nil {
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
			ok.Add(1)
			return
		}
		e, is := errors.AsType[*Error](err)
		if !is || !errors.Is(err, ErrConnection) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDeadline) && !errors.Is(err, ErrCanceled) {
			t.Errorf("%T %v", err, err)
		}
		if is && errors.Is(err, ErrUnavailable) && e.Executed != ExecutedNo {
			t.Errorf("%+v", e)
		}
		failed.Add(1)
	}
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprint(i, " ", n)
				switch n % 3 {
				case 0:
					got, err := invoke(context.Background(), cl, "Echo", want)
					judge(want, got, err)
				case 1:
					resp, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(want)).Wait(context.Background())
					if err != nil {
						judge(want, "", err)
					} else {
						judge(want, string(*resp), nil)
					}
				case 2:
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(2000))*time.Microsecond)
					got, err := invoke(ctx, cl, "Echo", want)
					cancel()
					judge(want, got, err)
				}
			}
		}()
	}
	for range rounds {
		n := ok.Load()
		testkit.Eventually(t, "calls to succeed", func() bool { return ok.Load() > n+50 })
		s.close()
		f := failed.Load()
		testkit.Eventually(t, "calls to fail", func() bool { return failed.Load() > f+10 })
		s = start()
	}
	close(stop)
	wg.Wait()
	testkit.Eventually(t, "all to have ended", func() bool { return cl.Stats().Active == 0 })
}

// TestCancelRaces: responses, deadlines, cancellations and the end of the connection meet; each call ends once and ids of
// calls that have ended bring nobody else's response.
func TestCancelRaces(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		n := 0
		for q := c.next(); q != nil; q = c.next() {
			if q.op == 2 {
				c.echo(q)
				n++
			}
			if n == 400 {
				return
			}
		}
	})
	cl := client(t, ClientOptions{MaxPending: 4, WaitForReady: true}, s.addr())
	n := 1500
	if testing.Short() {
		n = 300
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range n {
				want := fmt.Sprint(i, ".", k)
				ctx, cancel := context.WithCancel(context.Background())
				called := make(chan struct{}, 2)
				switch k % 3 {
				case 0:
					go cancel()
					got, err := invoke(ctx, cl, "Echo", want)
					if err == nil && got != want {
						t.Errorf("%q, want %q", got, want)
					}
				case 1:
					f := InvokeAsync[[]byte](ctx, cl, testKey, "Echo", text(want))
					f.Then(func(resp *[]byte, err error) {
						called <- struct{}{}
						if err == nil && string(*resp) != want {
							t.Errorf("%q, want %q", *resp, want)
						}
					})
					go f.Cancel()
					go cancel()
					<-f.Done()
					<-called
					if len(called) > 0 {
						t.Error("the callback was called twice")
					}
				case 2:
					got, err := invoke(ctx, cl, "Echo", want, CallTimeout(time.Duration(k%100)*10*time.Microsecond+1))
					if err == nil && got != want {
						t.Errorf("%q, want %q", got, want)
					}
				}
				cancel()
			}
		}()
	}
	wg.Wait()
	testkit.Eventually(t, "all to have ended", func() bool { return cl.Stats().Active == 0 })
	for _, w := range cl.routes.Load().all {
		w := w
		testkit.Eventually(t, "an empty table", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, armed := w.table.Next()
			return w.table.Len() == 0 && !armed
		})
	}
}
