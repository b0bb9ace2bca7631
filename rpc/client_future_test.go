package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestFuturePlaces: where the functions of futures run, with every dispatcher, for responses and for errors, before the end and after it.
func TestFuturePlaces(t *testing.T) {
	s := newStub(t, echoes)
	for d := range dispatchers {
		t.Run(d.String(), func(t *testing.T) {
			pool, err := executor.NewFixed(executor.Options{Workers: 2, Queue: 100})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pool.Shutdown(context.Background()) })
			cl := client(t, ClientOptions{Dispatcher: d, CallbackPool: pool}, s.addr())
			if _, err := invoke(context.Background(), cl, "Echo", ""); err != nil {
				t.Fatal(err)
			}
			onLoop := d == DispatchDirect || d == DispatchExecution
			places := make(chan [2]bool, 10)
			where := func(*[]byte, error) { places <- [2]bool{cl.group.In(), pool.OnWorker()} }
			f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x"))
			f.Then(where)
			if resp, err := f.Wait(context.Background()); err != nil || string(*resp) != "x" {
				t.Error(err)
			}
			f.Then(where)
			g := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x"), CallTimeout(1))
			g.Then(where)
			InvokeAsync[[]byte](context.Background(), cl, Key{}, "Echo", text("x")).Then(where) // ended at once
			for range 4 {
				if p := <-places; p != [2]bool{onLoop, !onLoop} {
					t.Errorf("on the loop %v, on the pool %v", p[0], p[1])
				}
			}
		})
	}
}

// TestFutureThen: functions run once each, in order, also those that are added by others; a panic in one does not touch the rest.
func TestFutureThen(t *testing.T) {
	release := make(chan struct{})
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			<-release
			c.echo(q)
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x"))
	var mu sync.Mutex
	var got []int
	note := func(n int) func(*[]byte, error) {
		return func(*[]byte, error) { mu.Lock(); defer mu.Unlock(); got = append(got, n) }
	}
	f.Then(note(1))
	f.Then(func(*[]byte, error) { f.Then(note(4)); panic("mine") })
	f.Then(note(2))
	f.Then(note(3))
	select {
	case <-f.Done():
		t.Fatal("ended before its response")
	default:
	}
	close(release)
	testkit.Eventually(t, "all functions", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 4 })
	if fmt.Sprint(got) != "[1 2 3 4]" {
		t.Error(got)
	}
	testkit.Eventually(t, "the count of the panic", func() bool { return cl.Stats().CallbackPanics == 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	hangs := client(t, ClientOptions{WaitForReady: true}, freePort(t))
	if _, err := InvokeAsync[[]byte](context.Background(), hangs, testKey, "Echo", text("")).Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSlowCallbacks: while the pool is full, responses wait for room, sync calls go on, nothing is lost; beyond MaxAsync
// calls are refused unsent.
func TestSlowCallbacks(t *testing.T) {
	registered := make(chan struct{}) // a function that comes after the end of its call is no part of it
	s := newStub(t, func(c *stubConn) {
		<-registered
		echoes(c)
	})
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 2, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Shutdown(context.Background())
	cl := client(t, ClientOptions{CallbackPool: pool, MaxAsync: 20}, s.addr())
	release := make(chan struct{})
	var ended atomic.Int64
	for i := range 20 {
		InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(fmt.Sprint(i))).Then(func(resp *[]byte, err error) {
			if err != nil || string(*resp) != fmt.Sprint(i) {
				t.Errorf("%d: %v", i, err)
			}
			<-release
			ended.Add(1)
		})
	}
	close(registered)
	testkit.Eventually(t, "the parked responses", func() bool { return cl.Stats().Parked == 17 })
	if got, err := invoke(context.Background(), cl, "Echo", "sync"); got != "sync" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_, err = InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("")).Wait(testkit.Context(t))
	if e := asError(t, err); !errors.Is(err, ErrClientFull) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "limit 20 (ClientOptions.MaxAsync)") {
		t.Errorf("%+v", e)
	}
	close(release)
	testkit.Eventually(t, "all callbacks", func() bool { return ended.Load() == 20 })
	testkit.Eventually(t, "room", func() bool { return cl.consumer.async.Load() == 0 })
	if resp, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("again")).Wait(testkit.Context(t)); err != nil || string(*resp) != "again" {
		t.Error(err)
	}
}

// TestClosedCallbackPool: a pool that was stopped too early loses no call.
func TestClosedCallbackPool(t *testing.T) {
	s := newStub(t, echoes)
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, ClientOptions{CallbackPool: pool}, s.addr())
	pool.Shutdown(context.Background())
	if resp, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x")).Wait(context.Background()); err != nil || string(*resp) != "x" {
		t.Error(err)
	}
}

// TestNothingWaitsOnALoop: what would wait for the loop it runs on is refused there, and so is Close where it would wait for its own caller.
func TestNothingWaitsOnALoop(t *testing.T) {
	s := newStub(t, echoes)
	shared := &eddy.Group{Loops: 1, Logger: quiet}
	defer shared.Close()
	for name, o := range map[string]ClientOptions{"own loop": {Dispatcher: DispatchDirect}, "shared loop": {Dispatcher: DispatchExecution, Group: shared}} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, o, s.addr())
			done := make(chan struct{})
			InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("")).Then(func(*[]byte, error) {
				defer close(done)
				f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(""))
				_, wait := f.Wait(context.Background())
				_, sync := invoke(context.Background(), cl, "Echo", "")
				for what, err := range map[string]error{
					"Wait": wait, "Invoke": sync, "Send": Send(context.Background(), cl, testKey, "Echo", text(""), WaitWritten()),
					"Close": cl.Close(), "Shutdown": cl.Shutdown(context.Background()),
				} {
					if !errors.Is(err, eddy.ErrOnLoop) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if err := Send(context.Background(), cl, testKey, "Echo", text("")); err != nil {
					t.Error(err)
				}
			})
			<-done
		})
	}
	cl := client(t, ClientOptions{}, s.addr())
	done := make(chan error)
	InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("")).Then(func(*[]byte, error) {
		if _, err := invoke(context.Background(), cl, "Echo", ""); err != nil {
			t.Error(err)
		}
		done <- cl.Close()
	})
	if err := <-done; !errors.Is(err, executor.ErrOnWorker) {
		t.Error(err)
	}
}

// badJSON is a response that panics when it is decoded.
type badJSON struct{}

func (*badJSON) UnmarshalJSON([]byte) error { panic("cannot") }

// MarshalJSON implements json.Marshaler.
func (badJSON) MarshalJSON() ([]byte, error) { panic("cannot either") }

// TestUndecodableResponses are errors of their own, not the connection's.
func TestUndecodableResponses(t *testing.T) {
	s := newStub(t, echoes)
	cl := client(t, ClientOptions{Codec: CodecJSON}, s.addr())
	type number struct{ N int }
	_, err := Invoke[number](context.Background(), cl, testKey, "Echo", "a text")
	if e := asError(t, err); !errors.Is(err, ErrResponse) || e.Executed != ExecutedMaybe {
		t.Errorf("%+v", e)
	}
	_, err = InvokeAsync[badJSON](context.Background(), cl, testKey, "Echo", 1).Wait(context.Background())
	if e := asError(t, err); !errors.Is(err, ErrResponse) || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("%+v", e)
	}
	for _, f := range []func(){
		func() { Invoke[badJSON](context.Background(), cl, testKey, "Echo", 1) },
		func() { Invoke[int](context.Background(), cl, testKey, "Echo", badJSON{}) },
		func() { InvokeAsync[int](context.Background(), cl, testKey, "Echo", badJSON{}) },
		func() { _ = Send(context.Background(), cl, testKey, "Echo", badJSON{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the caller's own panic was swallowed")
				}
			}()
			f()
		}()
	}
	_, err = invoke(context.Background(), cl, "Echo", "x", CallCodec(9))
	if e := asError(t, err); !errors.Is(err, ErrBadRequest) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	_, err = Invoke[number](context.Background(), cl, testKey, "Echo", func() {})
	if e := asError(t, err); !errors.Is(err, ErrBadRequest) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	testkit.Eventually(t, "all to have ended", func() bool { return cl.Stats().Active == 0 && cl.consumer.async.Load() == 0 })
	if n := s.seen.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// gateway calls so many services at once and returns how many of the responses were decoded by the goroutines that wait for them, and how
// many by others, and how many goroutines there were while all were being decoded, beside those before and the callers.
func gateway(t *testing.T, model Consumer, services int) (h *holder, more int) {
	t.Helper()
	s := newStub(t, func(c *stubConn) {
		var all []*request
		for q := c.next(); q != nil; q = c.next() {
			if all = append(all, q); len(all) == services {
				for _, q := range all {
					c.echo(q)
				}
				all = nil
			}
		}
	})
	cl := client(t, ClientOptions{Consumer: model, Codec: CodecJSON}, s.addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	h = &holder{all: services, ready: make(chan struct{}), release: make(chan struct{})}
	held.Store(h)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range services {
		wg.Add(1)
		go func() {
			defer wg.Done()
			key := Key{Interface: fmt.Sprint("demo.Service", i)}
			resp, err := Invoke[heldJSON](context.Background(), cl, key, "Get", i)
			if err != nil || resp.n != fmt.Sprint(i) {
				t.Errorf("%v, %v", resp, err)
			}
		}()
	}
	<-h.ready // each response is being decoded now
	more = runtime.NumGoroutine() - before - services
	close(h.release)
	wg.Wait()
	return h, more
}

// holder keeps the decoding of responses until all of them are at it.
type holder struct {
	all            int
	mu             sync.Mutex
	callers, pools int
	ready, release chan struct{}
}

var held atomic.Pointer[holder]

// heldJSON is a response whose decoding waits for the others.
type heldJSON struct{ n string }

func (v *heldJSON) UnmarshalJSON(b []byte) error {
	v.n = string(b)
	h := held.Load()
	stack := make([]byte, 16<<10)
	caller := strings.Contains(string(stack[:runtime.Stack(stack, false)]), "rpc.(*Client).invoke(")
	h.mu.Lock()
	if caller {
		h.callers++
	} else {
		h.pools++
	}
	if h.callers+h.pools == h.all {
		close(h.ready)
	}
	h.mu.Unlock()
	<-h.release
	return nil
}

// TestCallersConsume: a client that calls 100 services needs no more goroutines than one that calls one: each caller decodes its
// own response (R161).
func TestCallersConsume(t *testing.T) {
	for _, services := range []int{1, 100} {
		h, more := gateway(t, CallerRuns, services)
		if h.callers != services || h.pools != 0 || more > 20 { // a few goroutines of others come and go
			t.Errorf("%d services: %d responses decoded by callers, %d by others; %d goroutines more", services, h.callers, h.pools, more)
		}
	}
}

// TestDedicatedPools: in the older model every service has consumers of its own (R162).
func TestDedicatedPools(t *testing.T) {
	if h, _ := gateway(t, DedicatedPool, 100); h.callers != 0 || h.pools != 100 { // all at once, so on as many goroutines
		t.Errorf("100 services: %d responses decoded by callers, %d by pools", h.callers, h.pools)
	}
	s := newStub(t, echoes)
	cl := client(t, ClientOptions{Consumer: DedicatedPool}, s.addr())
	if got, err := invoke(context.Background(), cl, "Echo", "x"); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	pool := (*cl.services.Load())[testKey].pool.Pool
	testkit.Eventually(t, "the pool to rest", func() bool { return pool.Stats().Running == 0 })
	if st := pool.Stats(); st.Completed != 1 {
		t.Errorf("%+v", st)
	}
	place := make(chan bool, 1)
	InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("x")).Then(func(*[]byte, error) { place <- pool.OnWorker() })
	if !<-place {
		t.Error("a callback does not run on the pool of its service")
	}
	if _, err := invoke(context.Background(), cl, "Echo", "x", CallTimeout(time.Nanosecond)); !errors.Is(err, ErrDeadline) {
		t.Error(err)
	}
	pool.Shutdown(context.Background())
	if got, err := invoke(context.Background(), cl, "Echo", "own"); got != "own" || err != nil || cl.Stats().PoolFull != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOneWay: Send does not wait; with WaitWritten it waits for the system, its deadline and its context; what is not sent is counted.
func TestOneWay(t *testing.T) {
	got := make(chan string, 10)
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if q.op != 3 {
				t.Errorf("operation %d", q.op)
			}
			got <- q.body
		}
	})
	cl := client(t, ClientOptions{}, s.addr())
	for i, opts := range [][]CallOption{nil, {WaitWritten()}} {
		want := fmt.Sprint("line ", i)
		if err := Send(context.Background(), cl, testKey, "Log", text(want), opts...); err != nil {
			t.Fatal(err)
		}
		if body := <-got; body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	testkit.Eventually(t, "the count", func() bool { st := cl.Stats(); return st.OneWays == 2 && st.OneWayDropped == 0 && st.Active == 0 })

	cut := make(chan struct{})
	deaf := newDeaf(t, cut)
	cl = client(t, ClientOptions{MaxQueued: 1 << 30, MaxPayload: 8 << 20}, deaf.addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	huge := text(strings.Repeat("x", 8<<20-1000))
	for range 2 { // more than the system takes
		if err := Send(context.Background(), cl, testKey, "Log", huge); err != nil {
			t.Fatal(err)
		}
	}
	err := Send(context.Background(), cl, testKey, "Log", text("x"), WaitWritten(), CallTimeout(10*time.Millisecond))
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls := cl.Stats().Calls
	result := make(chan error)
	go func() { result <- Send(ctx, cl, testKey, "Log", text("x"), WaitWritten()) }()
	testkit.Eventually(t, "the sender", func() bool { return cl.Stats().Calls == calls+1 })
	cancel()
	err = <-result
	if e := asError(t, err); !errors.Is(err, ErrCanceled) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	err = Send(context.Background(), cl, testKey, "Log", text("late"), CallTimeout(time.Millisecond))
	if err != nil {
		t.Error(err)
	}
	go func() { result <- Send(context.Background(), cl, testKey, "Log", text("x"), WaitWritten()) }()
	testkit.Eventually(t, "the next sender", func() bool { return cl.Stats().Calls == 6 })
	cl.apply(nil)
	close(cut)
	if e := asError(t, <-result); !errors.Is(e, ErrConnection) {
		t.Errorf("%+v", e)
	}
	testkit.Eventually(t, "the end", func() bool { st := cl.Stats(); return st.Active == 0 && st.OneWayDropped >= 4 })

	down := client(t, ClientOptions{}, freePort(t))
	testkit.Eventually(t, "it to be down", func() bool { return down.Stats().DialFailures > 0 })
	testkit.Eventually(t, "the refusal", func() bool {
		err := Send(context.Background(), down, testKey, "Log", text("x"))
		return err != nil && errors.Is(err, ErrUnavailable)
	})
}

// TestClientInterceptors stand around every call, see and change what it sends, and may answer themselves.
func TestClientInterceptors(t *testing.T) {
	s := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if q.op == 2 {
				c.answer(q.id, 0, q.payload[6:len(q.payload)-len(q.body)]+"|"+q.body)
			}
		}
	})
	var mu sync.Mutex
	var order []string
	layer := func(name string) Interceptor {
		return func(ctx context.Context, call *CallInfo, req any, next func(context.Context, any) (any, error)) (any, error) {
			mu.Lock()
			order = append(order, fmt.Sprint(name, " ", call.Method, " ", call.OneWay))
			mu.Unlock()
			switch {
			case call.Method == "Panic":
				panic("mine")
			case call.Method == "Own":
				return text("own"), nil
			case call.Method == "Wrong":
				return 7, nil
			}
			call.Metadata = append(call.Metadata, Pair{"by", name})
			return next(ctx, req)
		}
	}
	cl := client(t, ClientOptions{Interceptors: []Interceptor{layer("outer"), layer("inner")}}, s.addr())
	got, err := invoke(context.Background(), cl, "Echo", "x")
	if want := "\x00\x0fg/demo.Echo:1.0\x00\x04Echo\x00\x02\x00\x02by\x00\x05outer\x00\x02by\x00\x05inner|x"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	resp, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text("y")).Wait(context.Background())
	if err != nil || !strings.HasSuffix(string(*resp), "inner|y") {
		t.Error(err)
	}
	if err := Send(context.Background(), cl, testKey, "Log", text("")); err != nil {
		t.Error(err)
	}
	want := "[outer Echo false inner Echo false outer Echo false inner Echo false outer Log true inner Log true]"
	if fmt.Sprint(order) != want {
		t.Errorf("%v", order)
	}
	if got, err := invoke(context.Background(), cl, "Own", ""); got != "own" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := invoke(context.Background(), cl, "Wrong", ""); !errors.Is(err, ErrResponse) {
		t.Error(err)
	}
	if _, err := InvokeAsync[[]byte](context.Background(), cl, testKey, "Panic", text("")).Wait(context.Background()); !errors.Is(err, ErrInternal) {
		t.Error(err)
	}
	hangs := newStub(t, func(c *stubConn) {
		for c.next() != nil {
		}
	})
	cl = client(t, ClientOptions{Interceptors: []Interceptor{layer("only")}}, hangs.addr())
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	if !f.Cancel() {
		t.Error("not cancelled")
	}
	if _, err := f.Wait(context.Background()); !errors.Is(err, ErrCanceled) {
		t.Error(err)
	}
	if f.Cancel() {
		t.Error("cancelled again")
	}
}
