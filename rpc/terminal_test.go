package rpc

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// terminal is a server on which one call runs at a time and one waits, and a client of it.
type terminal struct {
	*rawClient
	s    *Server
	pool *executor.Pool
	gate *gate
	ran  atomic.Int64
	d    Dispatcher
}

// explosive fails where it is encoded.
type explosive struct{ how string }

func (e explosive) MarshalJSON() ([]byte, error) {
	if e.how == "panic" {
		panic("on purpose")
	}
	return nil, errors.New("no JSON")
}

func newTerminal(t testing.TB, d Dispatcher, queue int) *terminal {
	x := &terminal{gate: newGate(), d: d, pool: userPool(t, "service", PoolOptions{Threads: 1, Queue: queue})}
	x.s = newServer(t, ServerOptions{
		Isolation: PerService,
		Ports:     []PortOptions{{Dispatcher: d, MaxPayload: 2000}},
	})
	count := func(run func(ctx context.Context, body []byte) ([]byte, error)) func(context.Context, []byte) ([]byte, error) {
		return func(ctx context.Context, body []byte) ([]byte, error) {
			x.ran.Add(1)
			return run(ctx, body)
		}
	}
	svc := newService(t, rawKey,
		Raw("Hold", count(func(context.Context, []byte) ([]byte, error) { x.gate.wait(); return []byte("held"), nil })), // does not look at its context
		Raw("Echo", count(func(_ context.Context, body []byte) ([]byte, error) { return body, nil })),
		Raw("Panic", count(func(context.Context, []byte) ([]byte, error) { panic("on purpose") })),
		Raw("Exit", count(func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil })),
		Raw("Big", count(func(context.Context, []byte) ([]byte, error) { return make([]byte, 2001), nil })),
		Unary("Explode", func(_ context.Context, how *string) (*explosive, error) {
			x.ran.Add(1)
			return &explosive{*how}, nil
		}))
	if err := x.s.Register(svc, WithPool(x.pool)); err != nil {
		t.Fatal(err)
	}
	serve(t, x.s)
	x.rawClient = dialRaw(t, x.s.Addr("port0"))
	return x
}

// hold makes the worker busy with call 1.
func (x *terminal) hold() {
	x.t.Helper()
	x.call(1, 0, rawKey, "Hold", "")
	testkit.Eventually(x.t, "the worker", func() bool { return x.gate.waiting.Load() == 1 })
}

// over checks that nothing is owed and nothing more comes.
func (x *terminal) over() {
	x.t.Helper()
	testkit.Eventually(x.t, "the end of all calls", func() bool { return x.s.Stats().Services[Key{Interface: "test", Version: "1"}].InFlight == 0 })
	x.silent(1 << 60)
}

func (x *terminal) executed(n int64) {
	x.t.Helper()
	if got := x.ran.Load(); got != n {
		x.t.Errorf("%d calls were executed, want %d", got, n)
	}
}

// TestOneTerminalResponse: exactly one response answers a call, whatever becomes of it, and one that says "not executed" is
// true, with every dispatcher.
func TestOneTerminalResponse(t *testing.T) {
	for _, c := range []struct {
		what   string
		queue  int
		direct bool // also on the loop, where nothing waits
		run    func(t *testing.T, x *terminal)
	}{
		{"pool full", 0, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 0, rawKey, "Echo", "")
			a := x.next()
			if a.id != 2 || a.status != busy || a.retryAfter() != 50 {
				t.Errorf("answer %+v, want BUSY with 50 ms", a)
			}
			x.send(rawFrame(3, 3, rawCall(0, 0, rawKey, "Echo", ""))) // one-way
			x.silent(4)
			close(x.gate.open)
			x.expect(1, ok)
			x.over()
			x.executed(1)
			if st := x.s.Stats().Ports["port0"].Requests; st.Rejected != 2 || st.Dropped != 1 {
				t.Errorf("%+v, want 2 rejections of which 1 was told nobody", st)
			}
		}},
		{"panic", 1, true, func(t *testing.T, x *terminal) {
			x.call(2, 0, rawKey, "Panic", "")
			if got := x.expect(2, internalError); got != "the handler panicked" {
				t.Error(got)
			}
			x.over()
		}},
		{"goexit", 1, false, func(t *testing.T, x *terminal) {
			x.call(2, 0, rawKey, "Exit", "")
			if got := x.expect(2, internalError); got != "the handler ended its goroutine" {
				t.Error(got)
			}
			x.over()
		}},
		{"encode failure", 1, true, func(t *testing.T, x *terminal) {
			x.json(2, rawKey, "Explode", `"error"`)
			if got := x.expect(2, internalError); !strings.Contains(got, "no JSON") {
				t.Error(got)
			}
			x.over()
		}},
		{"encode panic", 1, true, func(t *testing.T, x *terminal) {
			x.json(2, rawKey, "Explode", `"panic"`)
			x.expect(2, internalError)
			x.over()
		}},
		{"response too large", 1, true, func(t *testing.T, x *terminal) {
			x.call(2, 0, rawKey, "Big", "")
			if got := x.expect(2, tooLarge); got != "response of 2001 bytes, limit 2000" {
				t.Error(got)
			}
			x.over()
		}},
		{"decode failure", 1, true, func(t *testing.T, x *terminal) {
			x.json(2, rawKey, "Explode", `{`)
			x.expect(2, badRequestStatus)
			x.over()
			x.executed(0)
		}},
		{"deadline while waiting", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 1, rawKey, "Echo", "")
			x.expect(2, deadlineExceeded)
			close(x.gate.open)
			x.expect(1, ok)
			x.over()
			x.executed(1)
		}},
		{"deadline while running", 1, false, func(t *testing.T, x *terminal) {
			x.call(2, 1, rawKey, "Hold", "")
			x.expect(2, deadlineExceeded)
			close(x.gate.open)
			x.over()
		}},
		{"cancelled while waiting", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 0, rawKey, "Echo", "")
			x.cancel(2)
			x.expect(2, canceled)
			x.cancel(2)
			close(x.gate.open)
			x.expect(1, ok)
			x.over()
			x.executed(1)
		}},
		{"cancelled while running", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.cancel(1)
			x.expect(1, canceled)
			close(x.gate.open)
			x.over()
			x.executed(1)
		}},
		{"cancelled after the answer", 1, true, func(t *testing.T, x *terminal) {
			x.call(2, 0, rawKey, "Echo", "a")
			x.expect(2, ok)
			x.cancel(2)
			x.over()
			x.call(2, 0, rawKey, "Echo", "b") // the id is free again
			if got := x.expect(2, ok); got != "b" {
				t.Error(got)
			}
			x.over()
		}},
		{"id used twice", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(1, 0, rawKey, "Echo", "")
			x.expect(1, badRequestStatus)
			close(x.gate.open)
			if got := x.expect(1, ok); got != "held" {
				t.Error(got)
			}
			x.over()
			x.executed(1)
		}},
		{"drain", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 0, rawKey, "Echo", "waited")
			testkit.Eventually(t, "the queue", func() bool { return x.pool.Stats().Queued == 1 })
			done := make(chan error, 1)
			go func() { _, err := x.s.Shutdown(context.Background()); done <- err }()
			if a := x.next(); a.id != 0 || a.status != goAwayStatus || a.retryAfter() != 50 {
				t.Errorf("%+v, want GOAWAY", a)
			}
			x.call(3, 0, rawKey, "Echo", "")
			x.expect(3, unavailable)
			close(x.gate.open)
			x.expect(1, ok)
			x.expect(2, ok)
			if a, err := x.read(); err == nil {
				t.Errorf("%+v behind the last answer", a)
			}
			x.Close() // else the server waits for our end
			if err := <-done; err != nil {
				t.Error(err)
			}
			x.executed(2)
		}},
		{"pool stopped", 1, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 0, rawKey, "Echo", "")
			testkit.Eventually(t, "the queue", func() bool { return x.pool.Stats().Queued == 1 })
			x.pool.Close()
			x.expect(2, unavailable)
			x.call(3, 0, rawKey, "Echo", "")
			x.expect(3, unavailable)
			close(x.gate.open)
			x.expect(1, ok)
			x.over()
			x.executed(1)
		}},
		{"connection cut", 2, false, func(t *testing.T, x *terminal) {
			x.hold()
			x.call(2, 0, rawKey, "Echo", "")
			x.send(rawFrame(3, 3, rawCall(0, 0, rawKey, "Echo", ""))) // one-way: nobody there would wait for it
			testkit.Eventually(t, "the queue", func() bool { return x.pool.Stats().Queued == 2 })
			x.Close()
			testkit.Eventually(t, "the end of the connection", func() bool { return x.s.Stats().Ports["port0"].Requests.Abandoned == 2 })
			close(x.gate.open)
			x.rawClient = dialRaw(t, x.s.Addr("port0"))
			x.over()
			x.executed(2)
		}},
	} {
		for d := range dispatchers {
			if d == DispatchDirect && !c.direct {
				continue
			}
			t.Run(c.what+"/"+d.String(), func(t *testing.T) { c.run(t, newTerminal(t, d, c.queue)) })
		}
	}
}

// TestGoexitOnTheLoop: the call is answered or its connection ends, and the server serves the others.
func TestGoexitOnTheLoop(t *testing.T) {
	x := newTerminal(t, DispatchDirect, 1)
	x.call(2, 0, rawKey, "Exit", "")
	if a, err := x.read(); err == nil && (a.id != 2 || a.status != internalError) {
		t.Errorf("%+v", a)
	}
	x.rawClient = dialRaw(t, x.s.Addr("port0"))
	x.call(3, 0, rawKey, "Echo", "")
	x.expect(3, ok)
	x.over()
}

// TestTimeouts: of the client's and the service's the smaller one applies, 0 being none.
func TestTimeouts(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	m := Raw("M", func(ctx context.Context, _ []byte) ([]byte, error) {
		d, timed := ctx.Deadline()
		if !timed {
			return []byte("0"), nil
		}
		return strconv.AppendInt(nil, int64(time.Until(d)/time.Minute), 10), nil
	})
	for key, d := range map[string]RegisterOption{"/none:": Timeout(0), "/hour:": Timeout(time.Hour)} {
		if err := s.Register(newService(t, key, m), d); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	c := dialRaw(t, s.Addr("port0"))
	for i, x := range []struct {
		key         string
		client      uint32
		least, most int // minutes
	}{
		{"/none:", 0, 0, 0},
		{"/none:", 7_200_000, 61, 120},
		{"/hour:", 0, 21, 60},
		{"/hour:", 7_200_000, 21, 60},
		{"/hour:", 1_200_000, 1, 20},
	} {
		id := uint64(i + 1)
		c.call(id, x.client, x.key, "M", "")
		left, err := strconv.Atoi(c.expect(id, ok))
		if err != nil || left < x.least || left > x.most {
			t.Errorf("%+v: %d minutes are left, %v", x, left, err)
		}
	}
}

// TestServiceInFlight: beyond its bound a service's calls are refused, those of others are not.
func TestServiceInFlight(t *testing.T) {
	g := newGate()
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}, RetryAfter: -1})
	hold := Raw("Hold", func(context.Context, []byte) ([]byte, error) { g.wait(); return nil, nil })
	for key, n := range map[string]int{"/two:": 2, "/any:": 0} {
		if err := s.Register(newService(t, key, hold), InFlight(n)); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	c := dialRaw(t, s.Addr("port0"))
	for id := range uint64(3) {
		c.call(id+1, 0, "/two:", "Hold", "")
	}
	a := c.next()
	if a.id != 3 || a.status != busy || a.retryAfter() != 0 || a.message(t) != "service /two: is at its limit of 2 calls in flight" {
		t.Errorf("%+v", a)
	}
	for id := range uint64(3) {
		c.call(id+4, 0, "/any:", "Hold", "")
	}
	testkit.Eventually(t, "the others", func() bool { return g.waiting.Load() == 5 })
	close(g.open)
	var ids []uint64
	for range 5 {
		a := c.next()
		if a.status != ok {
			t.Errorf("%+v", a)
		}
		ids = append(ids, a.id)
	}
	if slices.Sort(ids); !slices.Equal(ids, []uint64{1, 2, 4, 5, 6}) {
		t.Error(ids)
	}
	two := Key{Interface: "two"}
	testkit.Eventually(t, "the end", func() bool { return s.Stats().Services[two].InFlight == 0 })
	if st := s.Stats().Services[two]; st.Calls != 2 || st.Limited != 1 {
		t.Errorf("%+v", st)
	}
	c.call(9, 0, "/two:", "Hold", "")
	c.expect(9, ok)
}
