package eddy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// TestLoopsOnProcessors: each pinned loop runs on the processor it was given, in turn.
func TestLoopsOnProcessors(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for i := 0; len(cpus) < min(2, allowed.Count()); i++ {
		if allowed.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	g := &eddy.Group{Loops: 3, WaitMode: eddy.WaitPinned, CPUs: cpus}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for i := range 3 {
		got := make(chan unix.CPUSet)
		if err := g.Loop(i).Post(func() {
			var set unix.CPUSet
			_ = unix.SchedGetaffinity(0, &set)
			got <- set
		}); err != nil {
			t.Fatal(err)
		}
		if set := <-got; set.Count() != 1 || !set.IsSet(cpus[i%len(cpus)]) {
			t.Errorf("loop %d may run on %v, want %d only", i, set, cpus[i%len(cpus)])
		}
	}
}

// TestMissingProcessor: a loop that cannot have its processor fails the start, by name, and the loops that run already
// are ended.
func TestMissingProcessor(t *testing.T) {
	g := &eddy.Group{Loops: 2, WaitMode: eddy.WaitPinned, CPUs: []int{0, 1023}}
	err := g.Start()
	le, ok := errors.AsType[*eddy.LoopError](err)
	if !ok || le.Loop != "worker-1" || !strings.Contains(err.Error(), "1023") {
		t.Fatalf("Start = %v", err)
	}
	srv := &eddy.Server{Group: g, Init: initWith(echo)}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("the server listens on a group that does not start")
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestSpinningServer: a server whose loops never sleep answers, and ends.
func TestSpinningServer(t *testing.T) {
	for _, spin := range []time.Duration{-1, 50 * time.Microsecond} {
		g := &eddy.Group{Loops: 1, WaitMode: eddy.WaitPinned, Spin: spin}
		srv := &eddy.Server{Group: g, Topology: eddy.SingleReactor, Init: initWith(eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			return ctx.WriteBytes(m.Bytes())
		}))}
		c := dial(t, start(t, srv))
		for range 50 {
			talk(t, c)
		}
		ran := make(chan struct{})
		if _, err := g.Loop(0).After(time.Millisecond, func() { close(ran) }); err != nil {
			t.Fatal(err)
		}
		<-ran
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
