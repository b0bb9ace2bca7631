package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// holding returns a service with a method that waits at the gate and one that answers at once.
func holding(t testing.TB, key string, g *gate) *Service {
	return newService(t, key,
		Raw("Hold", func(context.Context, []byte) ([]byte, error) { g.wait(); return nil, nil }),
		Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }))
}

// logged collects what a server logs.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestExhaustedServiceLeavesOthers: a service that has used up its pool takes nothing from the others with PerService, and
// everything with Shared; health, reflection and PING answer in any case.
func TestExhaustedServiceLeavesOthers(t *testing.T) {
	for _, isolation := range []Isolation{Shared, PerService} {
		t.Run(isolation.String(), func(t *testing.T) {
			g := newGate()
			s := newServer(t, ServerOptions{Isolation: isolation, Ports: []PortOptions{{Pool: PoolOptions{Threads: 3}}}})
			serve(t, s, holding(t, "/stuck:", g), holding(t, "/other:", g), holding(t, "g/stuck:", g), holding(t, "/stuck:2", g))
			c := dialRaw(t, s.Addr("port0"))
			for id := range uint64(3) {
				c.call(id+1, 0, "/stuck:", "Hold", "")
			}
			testkit.Eventually(t, "the workers", func() bool { return g.waiting.Load() == 3 })
			c.call(10, 0, "/stuck:", "Echo", "")
			c.expect(10, busy)
			want := byte(ok)
			if isolation == Shared {
				want = busy
			}
			for i := range 50 {
				for j, key := range []string{"/other:", "g/stuck:", "/stuck:2"} {
					id := uint64(100 + 10*i + j)
					testkit.Eventually(t, "idle workers", func() bool { return isolation == Shared || running(s) == 3 })
					c.call(id, 0, key, "Echo", "")
					c.expect(id, want)
				}
			}
			c.send(rawFrame(1000, 2, rawCall(0, 1, "/eddy.Health:", "Check", `{"service":"/other:"}`)))
			c.expect(1000, ok)
			c.send(rawFrame(1001, 2, rawCall(0, 1, "/eddy.Reflection:", "List", `{}`)))
			c.expect(1001, ok)
			c.silent(1002)
			close(g.open)
			for range 3 {
				if a := c.next(); a.status != ok || a.id > 3 {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// running counts the workers of the server's pools that run something.
func running(s *Server) (n int) {
	for _, p := range s.Stats().Pools {
		n += p.Running
	}
	return n
}

// TestPoolsOfServices: which pools there are, of which limits, and who shares them.
func TestPoolsOfServices(t *testing.T) {
	user := userPool(t, "mine", PoolOptions{Threads: 1})
	for _, isolation := range []Isolation{Shared, PerService} {
		t.Run(isolation.String(), func(t *testing.T) {
			var log logged
			g := newGate()
			s := newServer(t, ServerOptions{
				Isolation: isolation,
				Ports:     []PortOptions{{Name: "a", Pool: PoolOptions{Threads: 2}}, {Name: "b", Pool: PoolOptions{Threads: 3}}},
				Logger:    slog.New(slog.NewTextHandler(&log, nil)),
			})
			for key, options := range map[string][]RegisterOption{
				"/user:":    {WithPool(user)},
				"/options:": {WithPoolOptions(PoolOptions{Threads: 1})},
				"/own:":     nil,
				"/onlyb:":   {OnPorts("b")},
			} {
				if err := s.Register(holding(t, key, g), options...); err != nil {
					t.Fatal(err)
				}
			}
			serve(t, s)
			a, b := dialRaw(t, s.Addr("a")), dialRaw(t, s.Addr("b"))
			a.call(1, 0, "/onlyb:", "Hold", "")
			a.expect(1, notFound)
			warnings := strings.Count(log.String(), "WithPool is ignored")
			if isolation == Shared {
				if warnings != 2 {
					t.Errorf("%d warnings, want 2: %s", warnings, &log)
				}
				expectPools(t, s, "port a", "port b", "service /eddy.Reflection:")
				// Two and three, whatever the services.
				holdOn(t, g, a, "/user:", "/own:")
				busyOn(t, a, "/options:", "/user:", "/own:")
				holdOn(t, g, b, "/user:", "/options:", "/onlyb:")
				busyOn(t, b, "/own:")
				close(g.open)
				return
			}
			if warnings != 0 {
				t.Errorf("%s", &log)
			}
			expectPools(t, s, "port a", "port b", "service /eddy.Reflection:", "service /options:",
				"service /own: on a", "service /own: on b", "service /onlyb: on b")
			// One pool of the user's on both ports, also one of the service's options; own ones of the ports' limits.
			holdOn(t, g, a, "/user:", "/options:", "/own:", "/own:")
			busyOn(t, a, "/user:", "/options:", "/own:")
			busyOn(t, b, "/user:", "/options:")
			holdOn(t, g, b, "/own:", "/own:", "/own:", "/onlyb:", "/onlyb:", "/onlyb:")
			busyOn(t, b, "/own:", "/onlyb:")
			if st := user.Stats(); st.Running != 1 {
				t.Errorf("the user's pool: %+v", st)
			}
			close(g.open)
		})
	}
	testkit.Eventually(t, "the last call to leave the user's pool", func() bool { return user.Stats().Running == 0 })
	if err := user.SubmitFunc(func() {}); err != nil {
		t.Errorf("a user's pool was ended with the server: %v", err)
	}
}

func expectPools(t *testing.T, s *Server, names ...string) {
	t.Helper()
	pools := s.Stats().Pools
	for _, name := range names {
		if _, ok := pools[name]; !ok {
			t.Errorf("no pool %q", name)
		}
	}
	if len(pools) != len(names) {
		t.Errorf("pools %v, want %v", pools, names)
	}
}

// holdOn makes a worker busy for each of the services.
func holdOn(t *testing.T, g *gate, c *rawClient, keys ...string) {
	t.Helper()
	for i, key := range keys {
		n := g.waiting.Load()
		c.call(uint64(10_000+i), 0, key, "Hold", "")
		testkit.Eventually(t, key+" to hold", func() bool { return g.waiting.Load() == n+1 })
	}
}

func busyOn(t *testing.T, c *rawClient, keys ...string) {
	t.Helper()
	for _, key := range keys {
		c.call(20_000, 0, key, "Echo", "")
		c.expect(20_000, busy)
	}
}

// TestDefaultPools: a service without a pool of its own has one of 200 workers and no queue.
func TestDefaultPools(t *testing.T) {
	g := newGate()
	s := serve(t, newServer(t, ServerOptions{Isolation: PerService, Ports: []PortOptions{{}}}), holding(t, "/own:", g))
	c := dialRaw(t, s.Addr("port0"))
	for id := range uint64(201) {
		c.call(id+1, 0, "/own:", "Hold", "")
	}
	if a := c.next(); a.id != 201 || a.status != busy {
		t.Errorf("%+v", a)
	}
	testkit.Eventually(t, "200 workers", func() bool { return g.waiting.Load() == 200 })
	close(g.open)
	for range 200 {
		if a := c.next(); a.status != ok {
			t.Errorf("%+v", a)
		}
	}
	name := "service /own: on port0"
	if st := s.Stats().Pools[name]; st.Workers != 200 {
		t.Errorf("a fixed pool has shrunk: %+v", st)
	}
}

// TestPoolKinds: the kinds and their defaults, which are Dubbo's except for our bounds.
func TestPoolKinds(t *testing.T) {
	for _, c := range []struct {
		o               PoolOptions
		running, queued int // taken at once: so many run, so many wait
		stays           bool
	}{
		{PoolOptions{}, 200, 0, true},
		{PoolOptions{Threads: 10}, 10, 0, true},
		{PoolOptions{Threads: 10, Queue: 5}, 10, 5, true},
		{PoolOptions{Threads: 4, KeepAlive: time.Millisecond}, 4, 0, false},
		{PoolOptions{Threads: 4, CoreThreads: 4, KeepAlive: time.Millisecond}, 4, 0, true},
		{PoolOptions{Kind: PoolLimited}, 200, 0, true},
		{PoolOptions{Kind: PoolLimited, Threads: 7, Queue: 2, KeepAlive: time.Millisecond}, 7, 2, true},
		{PoolOptions{Kind: PoolCached, Threads: 9, KeepAlive: time.Millisecond}, 9, 0, false},
		{PoolOptions{Kind: PoolCached, Threads: 9, Queue: 3, KeepAlive: time.Millisecond}, 9, 3, false},
		{PoolOptions{Kind: PoolEager, Threads: 6, KeepAlive: time.Millisecond}, 6, 1, false},
		{PoolOptions{Kind: PoolEager, Threads: 6, Queue: 4, KeepAlive: time.Millisecond}, 6, 4, false},
	} {
		p := userPool(t, "x", c.o)
		held := make(chan struct{})
		taken := 0
		for p.SubmitFunc(func() { <-held }) == nil {
			taken++
		}
		testkit.Eventually(t, "the workers", func() bool { return p.Stats().Workers == c.running && p.Stats().Queued == c.queued })
		if taken != c.running+c.queued {
			t.Errorf("%+v: takes %d, want %d and %d", c.o, taken, c.running, c.queued)
		}
		close(held)
		testkit.Eventually(t, "the end", func() bool { return p.Stats().Running == 0 })
		if c.stays {
			if n := p.Stats().Workers; n != c.running {
				t.Errorf("%+v: %d workers stay, want %d", c.o, n, c.running)
			}
		} else {
			testkit.Eventually(t, "idle workers to end", func() bool { return p.Stats().Workers == 0 })
		}
	}
	for o, core := range map[PoolOptions]int{
		{}: 200, {Threads: 10}: 10, {Threads: 10, CoreThreads: 3}: 3, {Threads: 10, KeepAlive: 1}: 0, {Kind: PoolCached, Threads: 10}: 0,
	} {
		if e := o.settings(executor.Options{}); e.Core != core {
			t.Errorf("%+v: %d workers stay, want %d", o, e.Core, core)
		}
	}
	for k := range poolKinds {
		if got, err := ParsePoolKind(k.String()); got != k || err != nil {
			t.Error(k, got, err)
		}
	}
	for i := range isolations {
		if got, err := ParseIsolation(i.String()); got != i || err != nil {
			t.Error(i, got, err)
		}
	}
	if _, err := ParsePoolKind("virtual"); err == nil {
		t.Error("a kind virtual")
	}
	if _, err := ParseIsolation("none"); err == nil {
		t.Error("an isolation none")
	}
	if PoolKind(9).String() != "pool kind 9" || Isolation(9).String() != "isolation 9" {
		t.Error("names of what is not there")
	}
}

// TestExhaustionIsReported: a server's pools dump and tell as its options say.
func TestExhaustionIsReported(t *testing.T) {
	dir := t.TempDir()
	told := make(chan executor.Exhaustion, 10)
	g := newGate()
	s := serve(t, newServer(t, ServerOptions{
		Isolation: PerService, Dumper: &executor.Dumper{Dir: dir, Logger: quiet}, OnExhausted: func(e executor.Exhaustion) { told <- e },
		Ports: []PortOptions{{Pool: PoolOptions{Threads: 1}}},
	}), holding(t, "/own:", g))
	c := dialRaw(t, s.Addr("port0"))
	holdOn(t, g, c, "/own:")
	busyOn(t, c, "/own:")
	e := <-told
	if e.Pool != "service /own: on port0" || !strings.HasPrefix(e.Dump, dir) {
		t.Errorf("%+v", e)
	}
	close(g.open)
}

// TestApplicationGoroutinesAreFree: the methods run on workers of their pools and nowhere else, so that the goroutines of the
// application and the loops are none of theirs.
func TestApplicationGoroutinesAreFree(t *testing.T) {
	app := userPool(t, "application", PoolOptions{Threads: 1})
	onLoop, onApp := true, true
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Pool: PoolOptions{Threads: 1}}}}),
		newService(t, rawKey, Raw("Where", func(context.Context, []byte) ([]byte, error) {
			onLoop, onApp = eddy.OnLoop(), app.OnWorker()
			return nil, nil
		})))
	held := make(chan struct{})
	if err := app.SubmitFunc(func() { <-held }); err != nil { // the application's own pool is full
		t.Fatal(err)
	}
	c := dialRaw(t, s.Addr("port0"))
	c.call(1, 0, rawKey, "Where", "")
	c.expect(1, ok)
	go c.leave()
	if _, err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if onLoop || onApp {
		t.Errorf("on a loop %v, on the application's pool %v", onLoop, onApp)
	}
	close(held)
}
