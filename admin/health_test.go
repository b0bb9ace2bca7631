package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// why joins the reasons that there are.
func why(s *Server) string {
	var all []string
	for _, r := range s.readiness().Reasons {
		all = append(all, r.Check+": "+r.Why)
	}
	return strings.Join(all, "; ")
}

// TestReadiness: each cause makes the program not ready, is named with the limit and the value, and passes.
func TestReadiness(t *testing.T) {
	s := newAdmin(t, func(o *Options) { o.MaxLag = 20 * time.Millisecond })
	s.o.MaxLag = time.Hour // until the loops are to be late
	if got := why(s); got != "checks: they have not been done yet" {
		t.Errorf("at first: %s", got)
	}
	look := func(want string) {
		t.Helper()
		s.health.look(t.Context())
		if got := why(s); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("not ready because of %q, want %q", got, want)
		}
		w := ask(s, "GET", "/readyz", "")
		if status := map[bool]int{true: 200, false: 503}[want == ""]; w.Code != status || s.Snapshot(-1).Ready != (want == "") {
			t.Errorf("/readyz answers %d %s", w.Code, w.Body)
		}
	}
	look("")

	srv := &eddy.Server{Loops: 2, TaskQueue: 100}
	clock := enginetest.NewClock(t, srv)
	echoServer(t, srv)
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	look("")
	stuck, release := make(chan struct{}), make(chan struct{})
	if err := srv.Workers()[1].Post(func() { close(stuck); <-release }); err != nil {
		t.Fatal(err)
	}
	<-stuck
	s.o.MaxLag = 10 * time.Millisecond
	look("main worker-1: it has not answered for ")
	testkit.Eventually(t, "the other loop's answer", func() bool { s.health.look(t.Context()); return len(s.health.probes) == 1 })
	look("limit 10ms") // the same probe: a loop that is stuck is not sent more of them
	if got := srv.Stats().Loops[1].TaskQueueDepth; got != 1 {
		t.Errorf("%d tasks wait for the loop", got)
	}
	close(release)
	testkit.Eventually(t, "the end of the loop's tasks", func() bool { return srv.Stats().Loops[1].TaskQueueDepth == 0 })
	s.o.MaxLag = time.Hour
	look("")
	slow, goOn := make(chan struct{}), make(chan struct{})
	if err := srv.Workers()[1].Post(func() { close(slow); <-goOn }); err != nil {
		t.Fatal(err)
	}
	<-slow
	before, passed := clock.Now(), make(chan struct{})
	go func() { defer close(passed); clock.Advance(40 * time.Second) }()
	testkit.Eventually(t, "40 s", func() bool { return clock.Now() > before })
	close(goOn)
	testkit.Receive(t, "the loops to see the time", passed)
	clock.Advance(time.Second)    // the lag is told
	s.o.MaxLag = 30 * time.Second // far more than a loop of this machine takes to answer
	look("main worker-1: its lag was ")
	look("99th percentile of the last minute, limit 30s")
	s.o.MaxLag = time.Hour
	look("")

	p := pool(t, executor.Options{Name: "busy", Workers: 1, Queue: 1})
	if err := s.WatchPools(p, p); err != nil {
		t.Fatal(err)
	}
	look("")
	gate := make(chan struct{})
	for range 2 {
		if err := p.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the pool's worker", func() bool { return p.Stats().Running == 1 && p.Stats().Queued == 1 })
	look("pool busy: it has no room, or had none a moment ago: 1 of 1 workers run, 1 of 1 wait")
	if err := p.SubmitFunc(func() {}); !errors.Is(err, executor.ErrRejected) {
		t.Errorf("%v", err)
	}
	look("pool busy")
	close(gate)
	testkit.Eventually(t, "the pool", func() bool { return p.Stats().Completed == 2 })
	last := s.health.exhausted[p].at
	if got := s.health.rooms(last.Add(fullFor-time.Millisecond), s.pools); len(got) != 1 {
		t.Errorf("a moment after: %v", got)
	}
	if got := s.health.rooms(last.Add(fullFor), s.pools); got != nil {
		t.Errorf("a long time after: %v", got)
	}
	s.health.exhausted[p] = exhaustion{count: p.Stats().Exhausted}
	look("")

	var failing error
	if err := s.Check("store", maxTimeout, func(context.Context) error { return failing }); err != nil {
		t.Fatal(err)
	}
	look("")
	failing = errors.New("disk full")
	look("store: disk full")
	failing = nil
	look("")
	if err := s.Check("broken", maxTimeout, func(context.Context) error { panic("oops") }); err != nil {
		t.Fatal(err)
	}
	look("broken: the check panicked: oops")
	s.health.checks = s.health.checks[:1]
	hang := make(chan struct{})
	var calls atomic.Int64
	if err := s.Check("slow", time.Millisecond, func(context.Context) error { calls.Add(1); <-hang; return nil }); err != nil {
		t.Fatal(err)
	}
	look("slow: it has not returned for ")
	look("limit 1ms")
	testkit.Eventually(t, "the slow check's call", func() bool { return calls.Load() > 0 })
	look("limit 1ms")
	if n := calls.Load(); n != 1 {
		t.Errorf("the slow check was called %d times before it returned", n)
	}
	close(hang)
	testkit.Eventually(t, "the slow check", func() bool { s.health.look(t.Context()); return why(s) == "" })

	if got := s.health.result(time.Now().Add(2 * staleHealth)); len(got) != 1 || !strings.Contains(got[0].Why, "last done") {
		t.Errorf("checks that are not done any more: %v", got)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if got := why(s); got != "main: draining" {
		t.Errorf("without another look: %s", got)
	}
	look("main: draining")

	other := newAdmin(t, nil)
	other.health.look(t.Context())
	other.Drain()
	if got := why(other); got != "program: draining" {
		t.Errorf("a program that drains in steps: %s", got)
	}
}

// TestRegistrationIsBounded: what is registered twice, without a name or beyond the limit is refused.
func TestRegistrationIsBounded(t *testing.T) {
	s := newAdmin(t, nil)
	ok := func(context.Context) error { return nil }
	srv := new(eddy.Server)
	for what, err := range map[string]error{
		"server without a name": s.Watch("", srv), "no server": s.Watch("x", nil), "no pool": s.WatchPools(nil),
		"lanes without a name": s.WatchLanes("", fixedLanes{}), "no lanes": s.WatchLanes("x", nil),
		"check without a name": s.Check("", 0, ok), "no function": s.Check("x", 0, nil), "a long timeout": s.Check("x", time.Minute, ok), "negative": s.Check("x", -1, ok),
	} {
		if err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	for i := range maxWatched {
		name := fmt.Sprint(i)
		if err := errors.Join(s.Watch(name, srv), s.Check(name, 0, ok), s.CountRequests(func() uint64 { return 1 }), s.WatchPools(pool(t, executor.Options{Workers: 1})), s.WatchLanes(name, fixedLanes{{Name: "light"}})); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{
		"server": s.Watch("more", srv), "check": s.Check("more", 0, ok), "counter": s.CountRequests(nil), "pool": s.WatchPools(pool(t, executor.Options{})),
		"set of lanes": s.WatchLanes("more", fixedLanes{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "limit 64") {
			t.Errorf("a %s beyond the limit: %v", what, err)
		}
	}
	for kind, err := range map[string]error{"server": s.Watch("1", srv), "check": s.Check("1", 0, ok), "set of lanes": s.WatchLanes("1", fixedLanes{})} {
		if err == nil || err.Error() != "admin: there is a "+kind+` named "1" already` {
			t.Errorf("the same name for a %s: %v", kind, err)
		}
	}
	if got := s.Snapshot(-1); got.Requests != maxWatched || len(got.Servers) != maxWatched || len(got.Pools) != maxWatched || len(got.Lanes) != maxWatched {
		t.Errorf("%d requests, %d servers, %d pools, %d lanes", got.Requests, len(got.Servers), len(got.Pools), len(got.Lanes))
	}
}

// parkedRunner is parked until its channel is closed.
type parkedRunner struct {
	place executor.Place
	until chan struct{}
}

func (r *parkedRunner) Place() *executor.Place { return &r.place }

func (r *parkedRunner) Run() {
	r.place.Leave()
	defer r.place.Return()
	<-r.until
}

// TestCrowdedPool: a pool at its limit of parked runners makes the program not ready, though its workers are free and
// nothing was refused. One owner at its share does not.
func TestCrowdedPool(t *testing.T) {
	p := pool(t, executor.Options{Name: "web", Workers: 1, Queue: 4, Parked: 2})
	h, until := newHealth(nil), make(chan struct{})
	for n := range 2 {
		if got := h.rooms(time.Now(), []*executor.Pool{p}); got != nil {
			t.Errorf("with %d of 2: %v", n, got)
		}
		if err := p.Submit(&parkedRunner{until: until}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "it to be parked", func() bool { return p.Stats().Parked == n+1 })
	}
	want := Reason{"pool web", "it has no room, or had none a moment ago: 0 of 1 workers run, 0 of 4 wait, 2 of 2 are parked"}
	if got := h.rooms(time.Now(), []*executor.Pool{p}); len(got) != 1 || got[0] != want {
		t.Errorf("%v", got)
	}
	if s := poolStats(p); s.Parked != 2 || s.MaxParked != 2 || s.Crowded != 0 {
		t.Errorf("%+v", s)
	}
	close(until)
	testkit.Eventually(t, "both to go on", func() bool { return p.Stats().Parked == 0 })
	if got := h.rooms(time.Now(), []*executor.Pool{p}); got != nil {
		t.Errorf("afterwards: %v", got)
	}
}
