package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// stall keeps a client's only connection from sending until the test ends or calls resume, as a kernel does that takes nothing.
func stall(t *testing.T, cl *Client) (w *wire, resume func()) {
	t.Helper()
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	w = cl.routes.Load().all[0]
	w.mu.Lock()
	w.out.stalled = true
	w.mu.Unlock()
	return w, func() {
		w.mu.Lock()
		w.out.stalled = false
		w.out.posted = true
		w.mu.Unlock()
		w.post()
	}
}

// crowd stalls the connection of a client whose MaxQueued is a megabyte, and makes two calls: room is left for a small one, and the second
// call, the first in line, is not small.
func crowd(t *testing.T, cl *Client) (calls []*Future[[]byte], resume func()) {
	t.Helper()
	_, resume = stall(t, cl)
	for range 2 {
		calls = append(calls, InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(strings.Repeat("x", 600_000))))
	}
	if n := cl.Stats().Waiting; n != 1 {
		t.Fatalf("%d wait", n)
	}
	return calls, resume
}

// heldBytes returns how many bytes of requests the connections and the lists of a client hold.
func heldBytes(cl *Client) (queued, waiting int) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, w := range cl.routes.Load().all {
		w.mu.Lock()
		queued = max(queued, w.out.bytes)
		w.mu.Unlock()
	}
	return queued, cl.waits.room.bytes + cl.waits.conn.bytes
}

// TestLargeRequestsWait: callers whose requests are many times what may be queued all succeed, and the client holds no more than its bounds.
func TestLargeRequestsWait(t *testing.T) {
	var cl atomic.Pointer[Client]
	var most, mostWaiting atomic.Int64
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if cl := cl.Load(); cl != nil {
				queued, waiting := heldBytes(cl)
				most.Store(max(most.Load(), int64(queued)))
				mostWaiting.Store(max(mostWaiting.Load(), int64(waiting)))
			}
			c.answer(q.id, 0, fmt.Sprint(len(q.body)))
		}
	})
	const callers, size = 64, 1000 << 10
	cl.Store(client(t, ClientOptions{}, s.addr()))
	body := strings.Repeat("x", size)
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if got, err := invoke(context.Background(), cl.Load(), "Echo", body); got != fmt.Sprint(size) || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > DefaultMaxQueued || mostWaiting.Load() > DefaultMaxWaiting {
		t.Errorf("%d bytes queued, %d waiting", most.Load(), mostWaiting.Load())
	}
	if mostWaiting.Load() == 0 {
		t.Error("no call had to wait")
	}
	if st := cl.Load().Stats(); st.Full != 0 || st.Waiting != 0 {
		t.Errorf("%+v", st)
	}
}

// TestRoomIsGivenInOrder: calls of all kinds that wait for room are sent in the order in which they were made, also past one that is small
// enough for what is left, and nobody is overtaken by a call that comes later.
func TestRoomIsGivenInOrder(t *testing.T) {
	got := make(chan string, 1000)
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			got <- strings.TrimRight(q.body, ".x")
			if q.op == 2 {
				c.answer(q.id, 0, "")
			}
		}
	})
	cl := client(t, ClientOptions{MaxQueued: 1 << 20}, s.addr())
	futures, resume := crowd(t, cl)
	want := []string{"", ""}
	for i := range 60 {
		name := fmt.Sprint(i)
		want = append(want, name)
		if i%2 == 0 {
			name += strings.Repeat(".", 300_000)
		}
		if i%3 == 0 {
			if err := Send(context.Background(), cl, testKey, "Log", text(name)); err != nil {
				t.Fatal(err)
			}
		} else {
			futures = append(futures, InvokeAsync[[]byte](context.Background(), cl, testKey, "Log", text(name)))
		}
		if n := cl.Stats().Waiting; n != i+2 {
			t.Fatalf("%d wait after %d calls", n, i+1)
		}
	}
	resume()
	for _, f := range futures {
		if _, err := f.Wait(testkit.Context(t)); err != nil {
			t.Error(err)
		}
	}
	var order []string
	for range want {
		order = append(order, testkit.Receive(t, "a request", got))
	}
	if !slices.Equal(order, want) {
		t.Errorf("sent in the order %v", order)
	}
}

// TestWaitingForRoomEndsOnce: whoever waits for room is told once that there is some or that it is over: by its deadline, its context, the
// loss of the connection, or the end of the client.
func TestWaitingForRoomEndsOnce(t *testing.T) {
	const n = 30
	for name, x := range map[string]struct {
		end  func(cl *Client, w *wire, cancel func())
		is   error // nil: they go on
		opts []CallOption
		text string
	}{
		"room":     {func(*Client, *wire, func()) {}, nil, nil, ""},
		"context":  {func(_ *Client, _ *wire, cancel func()) { cancel() }, ErrCanceled, nil, "(not executed)"},
		"deadline": {func(*Client, *wire, func()) {}, ErrDeadline, []CallOption{CallTimeout(50 * time.Millisecond)}, "waiting for room"},
		"lost":     {func(_ *Client, w *wire, _ func()) { w.conn.Close(eddy.CloseNormal) }, ErrConnection, nil, "(not executed)"},
		"close":    {func(cl *Client, _ *wire, _ func()) { cl.Close() }, ErrClosed, nil, "(not executed)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t, echoes)
			cl := client(t, ClientOptions{MaxQueued: 1 << 20}, s.addr())
			if _, err := invoke(context.Background(), cl, "Echo", ""); err != nil {
				t.Fatal(err)
			}
			s.l.Close() // the connection is accepted, and when it is lost there is no other
			others, resume := crowd(t, cl)
			w := cl.routes.Load().all[0]
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var over, further atomic.Int64
			var wg sync.WaitGroup
			told := func(err error, text string) {
				defer wg.Done()
				switch {
				case err == nil:
					further.Add(1)
				case x.is == nil || !errors.Is(err, x.is) || !strings.Contains(err.Error(), text):
					t.Errorf("%v, want %v with %q", err, x.is, text)
				default:
					over.Add(1)
				}
			}
			body := strings.Repeat("x", 500_000)
			for i := range n {
				wg.Add(1)
				switch i % 3 {
				case 0:
					InvokeAsync[[]byte](ctx, cl, testKey, "Hold", text(body), x.opts...).Then(func(_ *[]byte, err error) { told(err, x.text) })
				case 1:
					go func() { _, err := invoke(ctx, cl, "Hold", body, x.opts...); told(err, x.text) }()
				case 2: // its caller has a timer of its own
					opts := append([]CallOption{WaitWritten()}, x.opts...)
					go func() { told(Send(ctx, cl, testKey, "Hold", text(body), opts...), "") }()
				}
			}
			if len(x.opts) == 0 {
				testkit.Eventually(t, "all to wait", func() bool { return cl.Stats().Waiting == n+1 })
			}
			if x.end(cl, w, cancel); x.is == nil {
				resume()
			}
			wg.Wait()
			if o, f := over.Load(), further.Load(); o+f != n || o != 0 && f != 0 {
				t.Errorf("%d were told to go on and %d that it is over, of %d", f, o, n)
			}
			resume()
			for _, f := range others {
				f.Wait(testkit.Context(t))
			}
			testkit.Eventually(t, "the end", func() bool { st := cl.Stats(); return st.Active == 0 && st.Waiting == 0 })
			if queued, waiting := heldBytes(cl); queued != 0 || waiting != 0 {
				t.Errorf("%d bytes queued, %d waiting", queued, waiting)
			}
		})
	}
}

// TestRoomForTheNext: when the first of those that wait gives up, the next one has the room that was too little for the first.
func TestRoomForTheNext(t *testing.T) {
	cl := client(t, ClientOptions{MaxQueued: 1 << 20}, newStub(t, echoes).addr())
	calls, _ := crowd(t, cl)
	InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("small"))
	if n := cl.Stats().Waiting; n != 2 {
		t.Fatalf("%d wait", n)
	}
	if !calls[1].Cancel() {
		t.Error("not cancelled")
	}
	if n := cl.Stats().Waiting; n != 0 {
		t.Errorf("%d wait", n)
	}
}

// TestRoomElsewhere: a call that waits for room takes a connection that comes up.
func TestRoomElsewhere(t *testing.T) {
	full, ok := newStub(t, echoes), newStub(t, names("ok"))
	cl := client(t, ClientOptions{MaxQueued: 1 << 20}, full.addr())
	calls, _ := crowd(t, cl)
	cl.apply(discovery.Addrs(full.addr(), ok.addr()))
	if resp, err := calls[1].Wait(testkit.Context(t)); err != nil || string(*resp) != "ok" {
		t.Error(err)
	}
}

// TestLeaverIsNoEnd: a call that meets a connection which is about to leave waits for the next one.
func TestLeaverIsNoEnd(t *testing.T) {
	cl := client(t, ClientOptions{}, newStub(t, echoes).addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	leaver := cl.routes.Load().all[0]
	setState := func(s wireState) {
		leaver.mu.Lock()
		defer leaver.mu.Unlock()
		leaver.state, leaver.proven = s, true
	}
	setState(wireAway) // and still in the routes
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x"))
	if n := cl.Stats().Waiting; n != 1 {
		t.Errorf("%d wait", n)
	}
	setState(wireOpen)
	leaver.retire(errGone)
	if _, err := f.Wait(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}

// TestRoomMeanwhile: a call that was refused before room was given, and comes to wait after that, tries again.
func TestRoomMeanwhile(t *testing.T) {
	cl := client(t, ClientOptions{MaxQueued: 1 << 20}, newStub(t, echoes).addr())
	w, resume := stall(t, cl)
	c := cl.newCall(frame.Call)
	defer c.release()
	given, r := cl.waits.given.Load(), cl.routes.Load()
	InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("x"))
	c.buf = make([]byte, 2<<20)
	_, full := cl.try(c, r)
	resume()
	testkit.Eventually(t, "room", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.out.bytes == 0 && !w.wanted })
	testkit.Eventually(t, "the client to be told", func() bool { return cl.waits.given.Load() > given })
	for name, why := range map[string]error{"refused": full, "behind others": errBehind} {
		if again, err := cl.wait(c, r, given, why); !again || err != nil {
			t.Errorf("%s: %v, %v", name, again, err)
		}
	}
	if again, err := cl.wait(c, r, cl.waits.given.Load(), errBehind); !again || err != nil {
		t.Errorf("behind nobody: %v, %v", again, err)
	}
}

// TestGivenUpOnItsWay: a call that is given up while it is handed to a connection is taken back from there.
func TestGivenUpOnItsWay(t *testing.T) {
	cl := client(t, ClientOptions{MaxQueued: 1}, newStub(t, echoes).addr())
	w, resume := stall(t, cl)
	load := func(when string, want int) {
		t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.table.Len() != want || (w.out.bytes > 0) != (want > 0) {
			t.Errorf("%s: %d calls on the connection, %d bytes", when, w.table.Len(), w.out.bytes)
		}
	}
	given := func() *call {
		c := cl.newCall(frame.Call)
		c.buf = make([]byte, 100)
		c.refs.Add(1)
		if err := cl.place(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := given(), given()
	load("one on it, one waits", 1)
	second.claim()
	first.claim()
	w.drop(first, false) // and there is room
	load("both given up", 0)
	if n := cl.waits.len(); n != 0 {
		t.Errorf("%d wait", n)
	}
	third := cl.newCall(frame.Call)
	third.buf = make([]byte, 100)
	third.claim()
	third.refs.Add(1)
	if err := cl.place(third); err != nil {
		t.Fatal(err)
	}
	load("given up before", 0)
	for _, c := range []*call{first, second, third} {
		c.release()
	}
	resume()
}

// TestGivenUpUnsent: a call that is given up is taken out of the queue unsent, and its bytes are counted once.
func TestGivenUpUnsent(t *testing.T) {
	cl := client(t, ClientOptions{}, newStub(t, echoes).addr())
	w, resume := stall(t, cl)
	c := cl.newCall(frame.Call)
	defer c.release()
	c.buf = make([]byte, 100)
	c.refs.Add(1)
	if err := cl.place(c); err != nil {
		t.Fatal(err)
	}
	c.claim()
	resume()
	testkit.Eventually(t, "the loop to pass it over", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.out.len() == 0 })
	w.drop(c, false)
	if queued, _ := heldBytes(cl); queued != 0 || w.out.bytes < 0 || w.table.Len() != 0 {
		t.Errorf("%d bytes queued, %d calls", w.out.bytes, w.table.Len())
	}
}

// TestAnswersAreReadWhileFull: a client whose queue is full, to a server that reads nothing, reads what the server sends.
func TestAnswersAreReadWhileFull(t *testing.T) {
	first, answer, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := newStub(t, func(c *stubConn) {
		if c.n > 1 { // the client comes again when the test is over
			return
		}
		q := c.next()
		close(first)
		<-answer
		c.answer(q.id, 0, strings.Repeat("a", 900<<10))
		<-end
	})
	defer close(end)
	cl := client(t, ClientOptions{MaxQueued: 1 << 20}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text("first"))
	<-first
	for range 40 { // more than the system takes
		InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(strings.Repeat("x", 1_000_000)))
	}
	testkit.Eventually(t, "a queue that is full", func() bool {
		w := cl.routes.Load().all[0]
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.out.stalled && cl.waits.room.n.Load() > 0
	})
	close(answer)
	if resp, err := f.Wait(testkit.Context(t)); err != nil || len(*resp) != 900<<10 {
		t.Error(err)
	}
	if cl.Stats().Waiting == 0 {
		t.Error("nobody waits")
	}
}

// TestNobodyMissesRoom: callers of all kinds meet where there is room for next to nothing, and each call succeeds.
func TestNobodyMissesRoom(t *testing.T) {
	const conns = 2
	for name, o := range map[string]ClientOptions{
		"bytes": {ConnsPerAddr: conns, MaxQueued: 1},
		"slots": {ConnsPerAddr: conns},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t, echoes)
			cl := client(t, o, s.addr())
			testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == conns })
			for _, w := range cl.routes.Load().all {
				w.mu.Lock()
				if name == "slots" { // not by MaxPending, which bounds those that wait as well
					w.table.Limit = 1
				}
				w.mu.Unlock()
			}
			rounds := 1000
			if testing.Short() {
				rounds = 200
			}
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					for k := range rounds {
						want := fmt.Sprint(i, ".", k)
						got, err := []byte(nil), error(nil)
						if k%2 == 0 {
							var resp *[]byte
							if resp, err = InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(want)).Wait(context.Background()); err == nil {
								got = *resp
							}
						} else {
							var resp string
							resp, err = invoke(context.Background(), cl, "Echo", want)
							got = []byte(resp)
						}
						if string(got) != want || err != nil {
							t.Errorf("%q, %v", got, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
