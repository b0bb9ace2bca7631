package rpc

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
)

// TestOnMethodWrong: what OnMethod cannot mean is refused, with the method's name, and changes nothing.
func TestOnMethodWrong(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{Name: "a"}}})
	svc := holding(t, "g/demo:1", newGate())
	for want, option := range map[string]RegisterOption{
		"service g/demo:1: OnMethod: there is no method \"Hald\"":      OnMethod("Hald", InFlight(1)),
		"method g/demo:1/Hold: InFlight of -1":                         OnMethod("Hold", InFlight(-1)),
		"method g/demo:1/Hold: OnPorts is for a whole service":         OnMethod("Hold", OnPorts("a")),
		"method g/demo:1/Hold: OnMethod in an OnMethod":                OnMethod("Hold", OnMethod("Echo", InFlight(1))),
		"method g/demo:1/Hold: two pools":                              OnMethod("Hold", WithPoolOptions(PoolOptions{}), WithPoolOptions(PoolOptions{})),
		"method g/demo:1/Hold: PoolOptions.Threads is -1: it must not": OnMethod("Hold", WithPoolOptions(PoolOptions{Threads: -1})),
	} {
		if err := s.Register(svc, option); err == nil || !strings.HasPrefix(err.Error(), "rpc: "+want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if n := len(s.Pools()); n != 2 {
		t.Errorf("%d pools are left of services that were refused; want those of the port and of reflection", n)
	}
	if err := s.Register(svc, OnMethod("Hold", InFlight(1)), OnMethod("Echo", InFlight(1))); err != nil {
		t.Error(err)
	}
}

// TestOnMethodPools: a method with a pool of its own is full by itself, on all ports, and its service's other methods are served as before; those
// without one share the service's. With Shared there is one pool, and a warning.
func TestOnMethodPools(t *testing.T) {
	for _, isolation := range []Isolation{Shared, PerService} {
		t.Run(isolation.String(), func(t *testing.T) {
			var log logged
			g := newGate()
			s := newServer(t, ServerOptions{Isolation: isolation, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Ports: []PortOptions{{Name: "a", Pool: PoolOptions{Threads: 2}}, {Name: "b", Pool: PoolOptions{Threads: 2}}}})
			if err := s.Register(holding(t, "/demo:", g), OnMethod("Hold", WithPoolOptions(PoolOptions{Threads: 1})), OnMethod("Echo", Timeout(time.Minute))); err != nil {
				t.Fatal(err)
			}
			serve(t, s)
			a, b := dialRaw(t, s.Addr("a")), dialRaw(t, s.Addr("b"))
			if isolation == Shared {
				if !strings.Contains(log.String(), `WithPool is ignored: isolation is shared" of="method /demo:/Hold"`) || strings.Count(log.String(), "ignored") != 1 {
					t.Error(log.String())
				}
				expectPools(t, s, "port a", "port b", "service /eddy.Reflection:")
				holdOn(t, g, a, "/demo:", "/demo:")
				a.call(1, 0, "/demo:", "Echo", "")
				a.expect(1, busy)
				close(g.open)
				return
			}
			if strings.Contains(log.String(), "ignored") {
				t.Error(log.String())
			}
			expectPools(t, s, "port a", "port b", "service /eddy.Reflection:", "service /demo: on a", "service /demo: on b", "method /demo:/Hold")
			holdOn(t, g, a, "/demo:")
			for i, c := range []*rawClient{a, b} {
				c.call(uint64(10+i), 0, "/demo:", "Hold", "")
				c.expect(uint64(10+i), busy)
			}
			for id := range uint64(20) {
				c := a
				if id%2 == 1 {
					c = b
				}
				c.call(1000+id, 0, "/demo:", "Echo", "x")
				if body := c.expect(1000+id, ok); body != "x" {
					t.Errorf("%q", body)
				}
			}
			close(g.open)
		})
	}
}

// TestOnMethodInFlight: a method's bound counts its calls only, the service's those of all; whoever was refused by either is counted by both, and
// leaves no count behind. By both protocols.
func TestOnMethodInFlight(t *testing.T) {
	g := newGate()
	s := newServer(t, ServerOptions{RetryAfter: 70 * time.Millisecond, Ports: []PortOptions{{}}})
	svc := newService(t, "/demo:",
		Raw("Hold", func(context.Context, []byte) ([]byte, error) { g.wait(); return nil, nil }),
		Raw("Keep", func(context.Context, []byte) ([]byte, error) { g.wait(); return nil, nil }))
	if err := s.Register(svc, InFlight(3), OnMethod("Hold", InFlight(1)), OnMethod("Hold", Timeout(time.Minute))); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	c, p := dialRaw(t, s.Addr("port0")), dialGRPC(t, s.Addr("port0"))
	refused := func(id uint64, method, why string) {
		t.Helper()
		c.call(id, 0, "/demo:", method, "")
		if a := c.next(); a.id != id || a.status != busy || a.message(t) != why {
			t.Errorf("%+v; want %q", a, why)
		}
		if a := p.call("/demo/"+method, []string{""}); a.status != "8 "+why || a.trailer.Get("Grpc-Retry-Pushback-Ms") != "70" {
			t.Errorf("%q %v; want %q", a.status, a.trailer, why)
		}
	}
	c.call(1, 0, "/demo:", "Hold", "")
	testkit.Eventually(t, "the call", func() bool { return g.waiting.Load() == 1 })
	refused(2, "Hold", "method /demo:/Hold is at its limit of 1 calls in flight")
	c.call(3, 0, "/demo:", "Keep", "")
	c.call(4, 0, "/demo:", "Keep", "")
	testkit.Eventually(t, "the calls", func() bool { return g.waiting.Load() == 3 })
	refused(5, "Keep", "service /demo: is at its limit of 3 calls in flight")
	stats := func(calls, hold uint64, flight, held int64) {
		t.Helper()
		testkit.Eventually(t, "the numbers", func() bool {
			st := s.Stats().Services[svc.Key()]
			h := st.Methods["Hold"]
			return len(st.Methods) == 1 && st.Calls == calls && h.Calls == hold && st.InFlight == flight && h.InFlight == held && st.Limited == 4 && h.Limited == 2
		})
	}
	stats(3, 1, 3, 1)
	close(g.open)
	for range 3 {
		c.next()
	}
	stats(3, 1, 0, 0)
	c.call(6, 0, "/demo:", "Hold", "")
	c.expect(6, ok)
	stats(4, 2, 0, 0)
}

// TestOnMethodInherits: a method has the timeout and the class of its service but for what it says itself, whichever option comes first.
func TestOnMethodInherits(t *testing.T) {
	say := func(ctx context.Context, _ []byte) ([]byte, error) {
		c, _ := limit.FromContext(ctx)
		text := c.String()
		if _, bounded := ctx.Deadline(); bounded {
			text += " in time"
		}
		return []byte(text), nil
	}
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	svc := newService(t, "/demo:", Raw("As", say), Raw("Class", say), Raw("Critical", say), Raw("Timeout", say))
	err := s.Register(svc, OnMethod("Timeout", InFlight(9)), OnMethod("Class", Class(limit.CriticalPlus)), OnMethod("Critical", Class(limit.Critical)),
		Timeout(time.Hour), Class(limit.Sheddable))
	if err != nil {
		t.Fatal(err)
	}
	late := newService(t, "/late:", Raw("As", say), Raw("Late", say))
	if err := s.Register(late, OnMethod("Late", Timeout(time.Hour))); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	c, p := dialRaw(t, s.Addr("port0")), dialGRPC(t, s.Addr("port0"))
	for i, m := range []struct{ service, method, want string }{
		{"demo", "As", "sheddable in time"},
		{"demo", "Class", "critical_plus in time"},
		{"demo", "Critical", "critical in time"},
		{"demo", "Timeout", "sheddable in time"},
		{"late", "As", "critical"},
		{"late", "Late", "critical in time"},
	} {
		c.call(uint64(i+1), 0, "/"+m.service+":", m.method, "")
		if got := c.expect(uint64(i+1), ok); got != m.want {
			t.Errorf("%s.%s: %q; want %q", m.service, m.method, got, m.want)
		}
		if a := p.call("/"+m.service+"/"+m.method, []string{""}); a.status != "0" || len(a.msgs) != 1 || a.msgs[0] != m.want {
			t.Errorf("%s.%s by gRPC: %q %q; want %q", m.service, m.method, a.status, a.msgs, m.want)
		}
	}
}

// TestOnMethodAdaptive: the limit of a method that finds it by itself is not that of its service, and its advice to come back is the pool's.
func TestOnMethodAdaptive(t *testing.T) {
	g := newGate()
	s := newServer(t, ServerOptions{Isolation: PerService, Ports: []PortOptions{{}}})
	if err := s.Register(holding(t, "/demo:", g), OnMethod("Hold", WithPoolOptions(PoolOptions{Adaptive: true, Threads: 1}))); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	c := dialRaw(t, s.Addr("port0"))
	c.call(1, 0, "/demo:", "Hold", "")
	testkit.Eventually(t, "the call", func() bool { return g.waiting.Load() == 1 })
	c.call(2, 0, "/demo:", "Hold", "") // waits, and is refused when it has waited for too long
	c.call(3, 0, "/demo:", "Echo", "")
	c.expect(3, ok)
	if a := c.next(); a.id != 2 || a.status != busy || a.retryAfter() == 0 {
		t.Errorf("%+v", a)
	}
	close(g.open)
	c.expect(1, ok)
}
