package overload

import (
	"errors"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/allowance"
	"github.com/go-eddy/eddy/internal/enginetest"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

// reads returns what a source reads now.
func reads(t *testing.T, read func() (float64, error)) float64 {
	t.Helper()
	v, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMemory: the pressure follows the memory that is in use, and falls when it is given up without any further work: the program
// collects by itself, though not at each look. Without a limit nothing is known.
func TestMemory(t *testing.T) {
	const limit = 1 << 30
	m := newMemory(limit)
	before := reads(t, m.read)
	held := make([]byte, limit/4)
	runtime.GC()
	with := reads(t, m.read)
	if with-before < 0.2 || before <= 0 {
		t.Errorf("%.3f before and %.3f with a quarter of the limit more", before, with)
	}
	runtime.KeepAlive(held)
	held = nil
	m.limit, m.quiet = limit/4, 0
	collections := 0
	m.collect = func() { collections++; runtime.GC() }
	for i := 0; reads(t, m.read) > 0.7 && i < 100; i++ {
	}
	if got := reads(t, m.read); got > 0.7 || collections > 5 {
		t.Errorf("%.3f after it was given up, %d collections", got, collections)
	}
	m.limit = allowance.Unlimited
	if _, err := m.read(); err == nil {
		t.Error("no error without a limit")
	}
	m.samples[0].Name = "/no/such:metric"
	m.limit = limit
	if _, err := m.read(); err == nil {
		t.Error("no error for a number that the runtime does not have")
	}
}

// TestCollectsSeldom: the program collects by itself when the collector has not run for two seconds, and not without pressure.
func TestCollectsSeldom(t *testing.T) {
	m := newMemory(math.MaxInt)
	m.collect = func() { t.Error("collects without pressure") }
	for range 3 * collectAfter {
		reads(t, m.read)
	}
	m = new(memory)
	var stale []int
	for i := range 3 * collectAfter {
		cycles := uint64(1)
		if i >= collectAfter/2 {
			cycles++
		}
		if m.stale(cycles) {
			stale = append(stale, i)
		}
	}
	if first := collectAfter/2 + collectAfter; len(stale) == 0 || stale[0] != first {
		t.Errorf("stale at the looks %v, want from %d on", stale, first)
	}
}

// TestCPU: the pressure is the part of its processors that the process has used in the last second.
func TestCPU(t *testing.T) {
	c := newCPU(2)
	now, used := time.Now(), time.Duration(0)
	c.now, c.used = func() time.Time { return now }, func() (time.Duration, error) { return used, nil }
	step := func(busy float64) float64 {
		now = now.Add(every)
		used += time.Duration(busy * float64(every))
		return reads(t, c.read)
	}
	for range 5 {
		if got := step(2); got != 0 {
			t.Errorf("%v in less than a second", got)
		}
	}
	if got := step(2); !near(got, 1) {
		t.Errorf("%v with both busy", got)
	}
	if got := step(0); !near(got, 0.8) {
		t.Errorf("%v after a fifth of a second without work", got)
	}
	for range 4 {
		step(0)
	}
	if got := step(1); !near(got, 0.1) {
		t.Errorf("%v with one busy for a fifth of a second", got)
	}
	c.used = func() (time.Duration, error) { return 0, errors.New("not told") }
	if _, err := c.read(); err == nil {
		t.Error("no error")
	}
	if d := newCPU(0); d.processors <= 0 || d.processors > float64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%v processors by default", d.processors)
	}
}

// TestDescriptors: descriptors that the program opens count.
func TestDescriptors(t *testing.T) {
	before, err := descriptors(1000)
	if err != nil {
		t.Skip(err)
	}
	for range 100 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if with, err := descriptors(1000); err != nil || with < before+0.09 || with > before+0.2 {
		t.Errorf("%v with a hundred more than %v; %v", with, before, err)
	}
	if v, err := descriptors(0); err != nil || v <= 0 || v >= 1 {
		t.Errorf("%v of the process's own limit; %v", v, err)
	}
}

// TestLag: the lag of a loop is how long its next task waits, also while the loop does not come to it. A single hiccup is none, and
// loops of servers that end are forgotten.
func TestLag(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Init: func(*eddy.Pipeline) error { return nil }}
	enginetest.Serve(t, srv)
	now := time.Now()
	g := newLag([]*eddy.Server{srv, {}}, time.Second)
	g.now = func() time.Time { return now }
	look := func(passed time.Duration) float64 {
		t.Helper()
		v := reads(t, g.read)
		enginetest.Barrier(t, srv)
		now = now.Add(passed)
		return v
	}
	for range 3 {
		if got := look(every); got > 0.001 {
			t.Errorf("a pressure of %v of a loop with nothing to do", got)
		}
	}
	held, hold := make(chan struct{}), make(chan struct{})
	if err := srv.Workers()[0].Post(func() { close(held); <-hold }); err != nil {
		t.Fatal(err)
	}
	<-held
	var got []float64
	for range 4 {
		got = append(got, reads(t, g.read))
		now = now.Add(500 * time.Millisecond)
	}
	if got[1] > 0.001 || !near(got[2], 0.5) || !near(got[3], 1) {
		t.Errorf("%v, while the loop stands still", got)
	}
	close(hold)
	enginetest.Barrier(t, srv)
	look(0)
	if got := look(0); got > 0.001 {
		t.Errorf("%v when the loop goes on", got)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if look := reads(t, g.read); look != 0 || len(g.probes) != 0 {
		t.Errorf("%v after the end, %d probes", look, len(g.probes))
	}
}

// pooled is a pool whose numbers the test says.
type pooled struct{ st executor.Stats }

func (p *pooled) Stats() executor.Stats { return p.st }

// TestQueueAge: the age is that of the oldest work in the queue, however much is taken out before it.
func TestQueueAge(t *testing.T) {
	var p, idle pooled
	now := time.Now()
	a := newAges(nil, time.Second)
	a.now = func() time.Time { return now }
	a.queues = []queue{{pool: &idle}, {pool: &p}}
	look := func(submitted, queued int) float64 {
		now = now.Add(every)
		p.st.Submitted, p.st.Queued = uint64(submitted), queued
		return reads(t, a.read)
	}
	for i, step := range []struct {
		submitted, queued int
		want              float64
	}{
		{10, 0, 0},
		{30, 20, 0}, // 10 to 30 have come by now
		{30, 20, 0.2},
		{50, 30, 0.4}, // of the first twenty ten are left
		{50, 20, 0.2}, // those are taken, and the later ones have waited for one look
		{50, 20, 0.4},
		{50, 0, 0},
		{60, 10, 0},
		{60, 100, 0.6}, // numbers that were read one after the other: nothing is older than what was submitted
	} {
		got := look(step.submitted, step.queued)
		if step.queued > step.submitted {
			if got < 0 || got > 10 {
				t.Errorf("step %d: %v", i, got)
			}
			continue
		}
		if !near(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	for range 3 * keptSubmissions {
		look(1000, 5)
	}
	if got := look(1000, 5); got < 10 {
		t.Errorf("%v after a long time", got)
	}
}
