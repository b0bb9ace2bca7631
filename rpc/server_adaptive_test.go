package rpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/trace"
)

// crowded returns a server of two services on an adaptive pool with one worker and room for one more call. Calls of "/low:" are sheddable. Its port trusts what calls
// say of themselves if trusting is set.
func crowded(t *testing.T, trusting bool) (s *Server, pool *executor.Pool, g *gate) {
	t.Helper()
	g = newGate()
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 1, Adaptive: &executor.Adaptive{MaxWait: time.Hour}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	recorder, err := trace.New(trace.Options{Sample: 1}) // a request that is recorded has its class, too
	if err != nil {
		t.Fatal(err)
	}
	s = newServer(t, ServerOptions{Isolation: PerService, Ports: []PortOptions{{TrustClass: trusting, Trace: recorder}}})
	for key, o := range map[string][]RegisterOption{"/low:": {Class(limit.Sheddable)}, "/plain:": nil} {
		if err := s.Register(holding(t, key, g), append(o, WithPool(pool))...); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	return s, pool, g
}

// TestClassesOfCalls: when the queue of an adaptive pool is full, a call that matters more takes the place of one that matters less, by the frame protocol and by gRPC.
// What a call says of itself counts on a port that trusts it, and nowhere else.
func TestClassesOfCalls(t *testing.T) {
	for _, protocol := range []string{"frame", "grpc"} {
		for _, trusting := range []bool{false, true} {
			t.Run(protocol+" "+map[bool]string{false: "untrusted", true: "trusted"}[trusting], func(t *testing.T) {
				s, pool, g := crowded(t, trusting)
				call := callerOf(t, s, protocol)
				type end struct {
					who string
					err error
				}
				ends := make(chan end, 8)
				begin := func(who, key, class string) {
					go func() {
						var o []CallOption
						if class != "" {
							o = append(o, CallMetadata(Pair{limit.Field, class}))
						}
						ends <- end{who, call(key, "Hold", o...)}
					}()
				}
				waitFor := func(what string, queued int, shed uint64) {
					t.Helper()
					testkit.Eventually(t, what, func() bool {
						st := pool.Stats()
						return st.Queued == queued && st.Shed+st.Rejected == shed
					})
				}
				begin("first", "/plain:", "")
				testkit.Eventually(t, "the worker", func() bool { return g.waiting.Load() == 1 })
				begin("low", "/low:", "critical_plus")
				waitFor("the one that waits", 1, 0)
				begin("plain", "/plain:", "nonsense")
				waitFor("one of them to be refused", 1, 1)
				refused := testkit.Receive(t, "the refused one", ends)
				want := "low"
				if trusting {
					want = "plain"
				}
				var e *Error
				if refused.who != want || !errors.Is(refused.err, ErrBusy) || !errors.As(refused.err, &e) || e.RetryAfter != 10*time.Second {
					t.Errorf("%s was refused with %v, want %s", refused.who, refused.err, want)
				}
				close(g.open)
				for range 2 {
					if e := testkit.Receive(t, "an answer", ends); e.err != nil {
						t.Errorf("%s: %v", e.who, e.err)
					}
				}
			})
		}
	}
}

// callerOf returns a function that calls a method of s by a protocol.
func callerOf(t *testing.T, s *Server, protocol string) func(key, method string, o ...CallOption) error {
	t.Helper()
	addr := s.Addr("port0").String()
	keyOf := func(text string) Key {
		k, err := ParseKey(text)
		if err != nil {
			t.Error(err)
		}
		return k
	}
	if protocol == "grpc" {
		cl, err := NewGRPCClient(GRPCOptions{Targets: []string{"http://" + addr}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return func(key, method string, o ...CallOption) error {
			_, err := Invoke[[]byte](testkit.Context(t), cl, keyOf(key), method, []byte(nil), o...)
			return err
		}
	}
	cl, err := NewClient(ClientOptions{Addrs: []string{addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return func(key, method string, o ...CallOption) error {
		_, err := Invoke[[]byte](testkit.Context(t), cl, keyOf(key), method, []byte(nil), o...)
		return err
	}
}

// TestAdaptiveOption: an adaptive pool has a queue, at most as many workers as Threads, and a class must be one.
func TestAdaptiveOption(t *testing.T) {
	p, err := PoolOptions{Threads: 50, Adaptive: true}.NewPool("db", executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Shutdown(context.Background())
	if st := p.Stats(); st.MaxWorkers != limit.DefaultInitial || st.MaxQueue != 1024 {
		t.Errorf("%+v", st)
	}
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	if err := s.Register(holding(t, "/x:", newGate()), Class(7)); err == nil || !strings.Contains(err.Error(), "class 7") {
		t.Error(err)
	}
}
