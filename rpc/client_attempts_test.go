package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// duo is a client of two servers, one of which does what the test says.
type duo struct {
	t         *testing.T
	caller    Caller
	stats     func() balance.Stats
	mode      atomic.Value // what the first one does: "" = serve
	asked     atomic.Int64 // it
	late      atomic.Int64 // calls that it has given up
	first     *Server
	second    *Server
	addresses []string
}

// duoOptions are those that both kinds of clients have.
type duoOptions struct {
	balance    balance.Options
	attempts   balance.Attempts
	idempotent func(Key, string) bool
	health     bool
	resolver   discovery.Resolver
}

var duoKey = Key{Interface: "test"}

func (d *duo) serve(ctx context.Context, _ []byte) ([]byte, error) {
	d.asked.Add(1)
	switch d.mode.Load() {
	case "busy":
		return nil, &frame.StatusError{Status: frame.StatusBusy, Message: "full"}
	case "panic":
		panic("on purpose")
	case "app":
		return nil, errors.New("no such name")
	case "hold":
		<-ctx.Done()
		d.late.Add(1)
		return nil, ctx.Err()
	}
	return []byte("first"), nil
}

// duos runs a test with each kind of client.
func duos(t *testing.T, o duoOptions, run func(t *testing.T, d *duo)) {
	for _, kind := range []string{"frame", "grpc"} {
		t.Run(kind, func(t *testing.T) {
			d := &duo{t: t}
			d.mode.Store("")
			d.first = serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Logger: quiet}), newService(t, "/test:", Raw("Who", d.serve)))
			d.second = serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
				Raw("Who", func(context.Context, []byte) ([]byte, error) { return []byte("second"), nil })))
			d.addresses = []string{d.first.Addr("port0").String(), d.second.Addr("port0").String()}
			if kind == "frame" {
				d.frame(o)
			} else {
				d.grpc(o)
			}
			run(t, d)
		})
	}
}

func (d *duo) frame(o duoOptions) {
	fo := ClientOptions{Balance: o.balance, Attempts: o.attempts, Idempotent: o.idempotent, Resolver: o.resolver, HealthService: "/test:"}
	if o.health {
		fo.Health = time.Millisecond
	}
	cl := client(d.t, fo, d.addresses...)
	d.caller, d.stats = cl, func() balance.Stats { return cl.Stats().Balance }
	if o.resolver == nil {
		testkit.Eventually(d.t, "the connections", func() bool { return cl.Stats().Connections == 2 })
	}
}

func (d *duo) grpc(o duoOptions) {
	targets := o.resolver == nil
	cl, err := NewGRPCClient(GRPCOptions{
		Balance: o.balance, Attempts: o.attempts, Idempotent: o.idempotent, Resolver: o.resolver, Health: o.health, HealthService: "test", Timeout: testkit.Patience, Logger: quiet,
		Targets: map[bool][]string{true: {"http://" + d.addresses[0], "http://" + d.addresses[1]}}[targets],
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			d.t.Error(err)
		}
	})
	d.caller, d.stats = cl, cl.Stats
}

// who makes a call.
func (d *duo) who(opts ...CallOption) (string, error) {
	resp, err := Invoke[[]byte](context.Background(), d.caller, duoKey, "Who", []byte("?"), opts...)
	if err != nil {
		return "", err
	}
	return string(*resp), nil
}

// count makes calls and counts who has answered.
func (d *duo) count(calls int, opts ...CallOption) map[string]int {
	got := map[string]int{}
	for range calls {
		name, err := d.who(opts...)
		if err != nil {
			name = "error"
		}
		got[name]++
	}
	return got
}

// keyOfFirst returns a key that the first server has.
func (d *duo) keyOfFirst() string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(i); d.count(1, HashKey(key))["first"] == 1 {
			return key
		}
	}
}

// TestEjected: a server that fails is left out after a few calls; one that answers with errors of the application is not.
func TestEjected(t *testing.T) {
	duos(t, duoOptions{balance: balance.Options{Eject: balance.Ejection{Trip: balance.Trip{Failures: 3, Open: time.Hour}}}}, func(t *testing.T, d *duo) {
		d.mode.Store("app")
		if got := d.count(40); got["error"] != 20 {
			t.Errorf("errors of the application: %v", got)
		}
		d.mode.Store("panic")
		if got := d.count(40); got["error"] != 3 || got["second"] != 37 {
			t.Errorf("panics: %v", got)
		}
		if s := d.stats(); s.Ejected != 1 || s.Usable != 1 || s.Instances != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestEjectedForDeadlines: a server that does not answer is left out, whoever sets the deadline.
func TestEjectedForDeadlines(t *testing.T) {
	o := balance.Options{Policy: balance.Hash, Eject: balance.Ejection{Trip: balance.Trip{Failures: 2, Open: time.Hour}}}
	duos(t, duoOptions{balance: o}, func(t *testing.T, d *duo) {
		key := d.keyOfFirst()
		d.mode.Store("hold")
		testkit.Eventually(t, "the first server to be left out", func() bool {
			if _, err := d.who(HashKey(key), CallTimeout(time.Millisecond)); err != nil && !errors.Is(err, ErrDeadline) {
				t.Fatal(err)
			}
			return d.stats().Ejected == 1
		})
		if got := d.count(20, HashKey(key)); got["second"] != 20 {
			t.Errorf("%v", got)
		}
	})
}

// TestRetried: a call that was refused, or that is idempotent and failed, is made at the other server.
func TestRetried(t *testing.T) {
	o := duoOptions{attempts: balance.Attempts{Max: 3, Pause: 1, Reserve: 1000}, idempotent: func(_ Key, method string) bool { return method == "Who" }}
	duos(t, o, func(t *testing.T, d *duo) {
		d.mode.Store("busy")
		if got := d.count(100); got["second"] != 100 {
			t.Errorf("busy: %v", got)
		}
		s := d.stats()
		if n := uint64(d.asked.Load()); s.Retries != n || n < 50 || n > 100 {
			t.Errorf("%d asked, %+v", n, s)
		}
		d.mode.Store("app")
		if got := d.count(100); got["error"] != 50 {
			t.Errorf("an error of the application: %v", got)
		}
	})
}

// TestNotRetried: beyond the budget nothing is made again.
func TestNotRetried(t *testing.T) {
	duos(t, duoOptions{attempts: balance.Attempts{Max: 3, Pause: 1, Reserve: 1}, idempotent: func(Key, string) bool { return true }}, func(t *testing.T, d *duo) {
		d.mode.Store("busy")
		got := d.count(200)
		if s := d.stats(); s.Retries > 21 || s.OverBudget == 0 || got["error"] < 70 {
			t.Errorf("%v, %+v", got, s)
		}
	})
}

// TestHedged: a late call is made at the other server too, if it is idempotent; the late one is given up.
func TestHedged(t *testing.T) {
	duos(t, duoOptions{attempts: balance.Attempts{Hedge: time.Millisecond, Reserve: 1000}}, func(t *testing.T, d *duo) {
		d.mode.Store("hold")
		if got := d.count(20, Idempotent()); got["second"] != 20 {
			t.Errorf("%v", got)
		}
		testkit.Eventually(t, "the late ones to be given up", func() bool { return d.late.Load() == d.asked.Load() })
		if s := d.stats(); s.HedgesWon == 0 || s.Hedges < s.HedgesWon {
			t.Errorf("%+v", s)
		}
		before := d.stats().Hedges
		d.count(2, CallTimeout(5*time.Millisecond))
		if got := d.stats().Hedges; got != before {
			t.Errorf("%d attempts beside calls that are not idempotent", got-before)
		}
	})
}

// TestBroken: calls to a service that only fails end at once.
func TestBroken(t *testing.T) {
	duos(t, duoOptions{
		attempts: balance.Attempts{Breaker: balance.Trip{Failures: 3, Open: time.Hour}},
		balance:  balance.Options{Policy: balance.Hash},
	}, func(t *testing.T, d *duo) {
		key := d.keyOfFirst()
		d.asked.Store(0)
		d.mode.Store("panic")
		d.count(20, HashKey(key))
		_, err := d.who(HashKey(key))
		if e := asError(t, err); !errors.Is(err, ErrUnavailable) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "circuit breaker") || d.asked.Load() != 3 {
			t.Errorf("%v, asked %d times", err, d.asked.Load())
		}
		if s := d.stats(); s.BrokenCalls == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHashed: calls with the same key meet the same server.
func TestHashed(t *testing.T) {
	duos(t, duoOptions{balance: balance.Options{Policy: balance.Hash}}, func(t *testing.T, d *duo) {
		all := map[string]bool{}
		for i := range 50 {
			got := d.count(3, HashKey(fmt.Sprint(i)))
			if len(got) != 1 || got["error"] > 0 {
				t.Errorf("key %d: %v", i, got)
			}
			for name := range got {
				all[name] = true
			}
		}
		if len(all) != 2 {
			t.Errorf("50 keys meet %v", all)
		}
	})
}

// TestSickServer: a server that says that it does not serve gets no calls until it says that it does.
func TestSickServer(t *testing.T) {
	duos(t, duoOptions{health: true}, func(t *testing.T, d *duo) {
		set := func(serving bool) {
			if err := d.first.SetServing(duoKey, serving); err != nil {
				t.Fatal(err)
			}
		}
		set(false)
		testkit.Eventually(t, "the first server to be left out", func() bool { return d.stats().Usable == 1 })
		if got := d.count(20); got["second"] != 20 {
			t.Errorf("%v", got)
		}
		if err := d.second.SetServing(duoKey, false); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "both to be left out", func() bool { return d.stats().Usable == 0 })
		if got := d.count(20); got["error"] > 0 {
			t.Errorf("calls fail though both servers live: %v", got)
		}
		set(true)
		testkit.Eventually(t, "the first server to be back", func() bool { return d.stats().Usable == 1 })
		if got := d.count(20); got["first"] != 20 {
			t.Errorf("%v", got)
		}
	})
}

// TestResolved: both clients take their servers from a Resolver, wait for its first answer, and keep the last good one.
func TestResolved(t *testing.T) {
	book := make(addrBook)
	duos(t, duoOptions{resolver: book}, func(t *testing.T, d *duo) {
		if _, err := d.who(CallTimeout(time.Millisecond)); !errors.Is(err, ErrDeadline) {
			t.Errorf("before the first answer: %v", err)
		}
		book <- discovery.Addrs(d.addresses[1])
		if got := d.count(10); got["second"] != 10 {
			t.Errorf("%v", got)
		}
		book <- []discovery.Instance{}
		testkit.Eventually(t, "an empty answer", func() bool { return d.stats().ResolveEmpty == 1 })
		book <- discovery.Addrs("garbage")
		testkit.Eventually(t, "garbage", func() bool { return d.stats().ResolveRefused == 1 })
		if got := d.count(10); got["second"] != 10 {
			t.Errorf("%v", got)
		}
		book <- discovery.Addrs(d.addresses[0])
		testkit.Eventually(t, "the change", func() bool { name, err := d.who(); return err == nil && name == "first" })
	})
}

// TestUnresolved: the first answer is an error, which is that of calls.
func TestUnresolved(t *testing.T) {
	book := make(addrBook)
	duos(t, duoOptions{resolver: book}, func(t *testing.T, d *duo) {
		book <- errors.New("no such registry")
		_, err := d.who()
		if e := asError(t, err); !errors.Is(err, ErrUnavailable) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "no such registry") {
			t.Errorf("%v", err)
		}
	})
}

// TestBadGRPCOptions: an error names the option that makes no sense.
func TestBadGRPCOptions(t *testing.T) {
	for want, o := range map[string]GRPCOptions{
		"both set":                     {Targets: []string{"http://a:1"}, Resolver: discovery.Static()},
		"Balance: balance: Options":    {Targets: []string{"http://a:1"}, Balance: balance.Options{Policy: 9}},
		"Attempts: balance: Attempts.": {Targets: []string{"http://a:1"}, Attempts: balance.Attempts{Max: -1}},
		"Targets: discovery: address":  {Targets: []string{"http://a:0"}},
	} {
		if _, err := NewGRPCClient(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestObserved: a server that answers nothing in time, and one that loses its connection with a call in flight, count as failed.
func TestObserved(t *testing.T) {
	for what, serve := range map[string]func(*stubConn){
		"silent": func(c *stubConn) {
			for c.next() != nil {
			}
		},
		"cut": func(c *stubConn) { c.next() },
	} {
		bad, good := newStub(t, serve), newStub(t, names("good"))
		cl := client(t, ClientOptions{Balance: balance.Options{Eject: balance.Ejection{Trip: balance.Trip{Failures: 1, Open: time.Hour}}}}, bad.addr(), good.addr())
		testkit.Eventually(t, "a failure that counts", func() bool {
			for _, n := range cl.balancer.Nodes() {
				if n.Instance.Addr != bad.addr() {
					continue
				}
				o := callOptions{timeout: time.Millisecond, only: n.Value.(*peer)}
				if what == "cut" {
					o.timeout = testkit.Patience
				}
				var resp []byte
				if err := cl.invoke(context.Background(), testKey, "Who", text(""), &resp, o); err == nil {
					t.Fatalf("%s: an answer", what)
				}
			}
			return cl.Stats().Balance.Ejections > 0
		})
	}
}

// TestTimeShrinks: each attempt tells its server what is left of the call's time, not all of it again.
func TestTimeShrinks(t *testing.T) {
	var left [2]atomic.Int64
	busy := func(i int) func(*stubConn) {
		return func(c *stubConn) {
			for q := c.next(); q != nil; q = c.next() {
				left[i].Store(int64(q.timeout))
				c.answer(q.id, byte(frame.StatusBusy), rawError(0, "full"))
			}
		}
	}
	a, b := newStub(t, busy(0)), newStub(t, busy(1))
	cl := client(t, ClientOptions{Attempts: balance.Attempts{Max: 2, Pause: 200 * time.Millisecond}}, a.addr(), b.addr())
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 2 })
	if _, err := invoke(context.Background(), cl, "Who", "", CallTimeout(time.Minute)); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	first, second := max(left[0].Load(), left[1].Load()), min(left[0].Load(), left[1].Load())
	if first > time.Minute.Milliseconds() || second == 0 || first-second < 100 { // half of the pause at least
		t.Errorf("%d and then %d ms", first, second)
	}
}
