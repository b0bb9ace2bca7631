package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/ring"
)

// job and answer are what the tests send through lanes.
type (
	job    struct{ id, lane int }
	answer struct {
		id, lane int
		failed   any
	}
)

// desk is the producer and consumer of lanes in tests.
type desk struct {
	t     testing.TB
	lanes *Lanes[job, answer]
	woken chan struct{}
	got   []answer
}

func newDesk(t testing.TB, o LanesOptions[job, answer]) *desk {
	t.Helper()
	d := &desk{t: t, woken: make(chan struct{}, 1)}
	if o.Wake == nil {
		o.Wake = func() error {
			select {
			case d.woken <- struct{}{}:
				return nil
			default:
				return errors.New("woken twice")
			}
		}
	}
	if o.Run == nil {
		o.Run = func(lane int, in *job, out *answer) { *out = answer{id: in.id, lane: lane} }
	}
	o.OnPanic = func(any, []byte) {}
	var err error
	if d.lanes, err = NewLanes(o); err != nil {
		t.Fatal(err)
	}
	if err := d.lanes.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d.lanes.Stop(ctx)
	})
	return d
}

// collect waits until there are n results in all.
func (d *desk) collect(n int) {
	d.t.Helper()
	for len(d.got) < n {
		testkit.Receive(d.t, "a result", d.woken)
		d.lanes.Collect(0, func(a *answer) { d.got = append(d.got, *a) })
	}
}

func (d *desk) submit(lane, from, to int) {
	d.t.Helper()
	for i := from; i < to; i++ {
		if err := d.lanes.Submit(lane, job{id: i, lane: lane}); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestLanes: work of each lane is done by its workers, each once; a lane of one worker keeps its order; all results come
// to the one consumer.
func TestLanes(t *testing.T) {
	d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{Name: "light", Capacity: 2048}, {Name: "heavy", Workers: 3}}})
	const each = 2000
	d.submit(0, 0, each)
	for i := 0; i < each; {
		if d.lanes.Submit(1, job{id: i}) == nil {
			i++
		} else {
			d.collect(len(d.got) + 1)
		}
	}
	d.collect(2 * each)
	var light, heavy []int
	for _, a := range d.got {
		if a.lane == 0 {
			light = append(light, a.id)
		} else {
			heavy = append(heavy, a.id)
		}
	}
	if len(light) != each || !slices.IsSorted(light) {
		t.Errorf("%d results of one worker, in order: %v", len(light), slices.IsSorted(light))
	}
	slices.Sort(heavy)
	for i, id := range heavy {
		if i != id {
			t.Fatalf("result %d of three workers is %d", i, id)
		}
	}
	if st := d.lanes.Stats(); st[0].Workers != 1 || st[1].Workers != 3 || st[0].Capacity != 2048 || st[1].Capacity != 3*1024 || st[1].Done != each || st[0].Accepted != each || st[0].Name != "light" {
		t.Errorf("%+v", st)
	}
}

// TestLanesTakePortions: a worker takes what is available together, up to 16, and gives the slots back together; each
// result comes by itself, so that none waits for slow work behind it.
func TestLanesTakePortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := newDesk(t, LanesOptions[job, answer]{
			Lanes: []Lane{{Capacity: 64}},
			Run:   func(_ int, in *job, out *answer) { <-gate; out.id = in.id },
		})
		d.submit(0, 0, 1)
		synctest.Wait() // the worker has taken it alone
		d.submit(0, 1, 21)
		for done := range 22 {
			if done > 0 {
				gate <- struct{}{}
				synctest.Wait()
				d.lanes.Collect(0, func(a *answer) { d.got = append(d.got, *a) })
			}
			queued := 21
			switch {
			case done > 20: // 1, 16 and 4
				queued = 0
			case done > 16:
				queued = 4
			case done > 0:
				queued = 20
			}
			if st := d.lanes.Stats()[0]; st.Queued != queued || len(d.got) != done {
				t.Fatalf("%d are done: %d slots taken, want %d, and %d results", done, st.Queued, queued, len(d.got))
			}
		}
	})
}

// TestHeavyLaneLeavesTheLightAlone: with the heavy lane stuck and full, light work goes through.
func TestHeavyLaneLeavesTheLightAlone(t *testing.T) {
	gate := make(chan struct{})
	d := newDesk(t, LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "heavy", Heaviness: 10, Capacity: 4}, {Name: "light", Heaviness: 1}},
		Run: func(lane int, in *job, out *answer) {
			if lane == 0 {
				<-gate
			}
			*out = answer{id: in.id, lane: lane}
		},
	})
	var err error
	for n := 0; err == nil; n++ {
		if err = d.lanes.Submit(0, job{id: n}); n > 4 {
			t.Fatal("a lane of 4 slots takes more than 4")
		}
	}
	if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), `heavy`) || !strings.Contains(err.Error(), "4") {
		t.Errorf("full: %v", err)
	}
	d.submit(1, 0, 100)
	d.collect(100)
	if st := d.lanes.Stats(); st[0].Rejected != 1 || st[0].Queued == 0 {
		t.Errorf("%+v", st)
	}
	close(gate)
	d.collect(104)
}

// TestLaneGrows: a full lane starts another worker up to MaxWorkers, and then rejects.
func TestLaneGrows(t *testing.T) {
	gate := make(chan struct{})
	d := newDesk(t, LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "grows", MaxWorkers: 3, Capacity: 2}},
		Run:   func(_ int, in *job, out *answer) { <-gate; out.id = in.id },
	})
	d.submit(0, 0, 6)
	if err := d.lanes.Submit(0, job{}); !errors.Is(err, ErrRejected) {
		t.Errorf("the seventh: %v", err)
	}
	if st := d.lanes.Stats()[0]; st.Workers != 3 || st.Capacity != 3*2 {
		t.Errorf("%d workers, %d slots", st.Workers, st.Capacity)
	}
	close(gate)
	d.collect(6)
}

// TestForHeaviness: work goes to the lightest lane that bears it.
func TestForHeaviness(t *testing.T) {
	for _, order := range [][]int{{100, 1, 10}, {1, 100, 10}, {10, 1, 100}} {
		var lanes []Lane
		for _, h := range order {
			lanes = append(lanes, Lane{Heaviness: h})
		}
		d := newDesk(t, LanesOptions[job, answer]{Lanes: lanes})
		for h, want := range map[int]int{-5: 1, 0: 1, 1: 1, 2: 10, 10: 10, 11: 100, 100: 100, 101: 100} {
			if got := d.lanes.For(h); order[got] != want {
				t.Errorf("lanes %v: heaviness %d goes to lane %d, want %d", order, h, order[got], want)
			}
		}
	}
}

// TestFailedWork: work that panics or ends its goroutine has a result like any other, and the worker goes on.
func TestFailedWork(t *testing.T) {
	d := newDesk(t, LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "one"}},
		Run: func(_ int, in *job, out *answer) {
			switch in.id {
			case 1:
				panic("as asked")
			case 3:
				runtime.Goexit()
			}
			*out = answer{id: in.id}
		},
		Failed: func(_ int, in *job, v any, out *answer) { *out = answer{id: in.id, failed: v} },
	})
	d.submit(0, 0, 6)
	d.collect(6)
	for i, a := range d.got {
		want := map[int]any{1: "as asked", 3: errExited}[i]
		if a.id != i || a.failed != want {
			t.Errorf("result %d: %+v, want failure %v", i, a, want)
		}
	}
	if n := d.lanes.Stats()[0].Panics; n != 2 {
		t.Errorf("%d panics", n)
	}
}

// TestWakeIsOwed: a consumer that cannot be woken is woken later, without further work.
func TestWakeIsOwed(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	woken := make(chan struct{}, 1)
	d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{}}, Wake: func() error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls < 3 {
			return errors.New("queue full")
		}
		woken <- struct{}{}
		return nil
	}})
	d.woken = woken
	d.submit(0, 0, 1)
	d.collect(1)
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

// TestCollectInPortions: what a bounded Collect leaves wakes the consumer again; the results ring being full holds up
// the worker and loses nothing.
func TestCollectInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{Capacity: 4}}})
		var got []int
		for next := 0; len(got) < 100; {
			for next < 100 && d.lanes.Submit(0, job{id: next}) == nil {
				next++
			}
			select {
			case <-d.woken:
				d.lanes.Collect(1, func(a *answer) { got = append(got, a.id) })
			case <-time.After(time.Millisecond):
			}
		}
		if !slices.IsSorted(got) {
			t.Errorf("results %v", got)
		}
	})
}

// TestStopAndStart: Stop finishes what was accepted if it may and gives up the rest if it may not; after Start it all
// works again, with the earlier workers gone.
func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, running := make(chan struct{}, 100), make(chan struct{}, 100)
		d := newDesk(t, LanesOptions[job, answer]{
			Lanes: []Lane{{Name: "one", Capacity: 8}},
			Run:   func(_ int, in *job, out *answer) { running <- struct{}{}; <-gate; out.id = in.id },
		})
		if err := d.lanes.Start(); err == nil {
			t.Error("started twice")
		}
		d.submit(0, 0, 5)
		stopped := make(chan int, 1)
		go func() { stopped <- d.lanes.Stop(context.Background()) }()
		for range 5 {
			gate <- struct{}{}
		}
		d.collect(5)
		if lost := <-stopped; lost != 0 {
			t.Errorf("%d lost with all the time in the world", lost)
		}
		if err := d.lanes.Submit(0, job{}); err != ErrClosed {
			t.Errorf("Submit after Stop = %v", err)
		}
		if err := d.lanes.Start(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			<-running
		}
		d.submit(0, 5, 10)
		<-running
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		go func() { stopped <- d.lanes.Stop(ctx) }()
		synctest.Wait()
		if len(stopped) > 0 || !d.lanes.run.ending.Load() {
			t.Fatal("Stop did not wait for the worker in Run")
		}
		gate <- struct{}{}
		if lost := <-stopped; lost != 4 {
			t.Errorf("%d lost, want 4", lost)
		}
		if err := d.lanes.Start(); err != nil {
			t.Fatal(err)
		}
		d.submit(0, 10, 12)
		gate <- struct{}{}
		gate <- struct{}{}
		d.collect(8)
		if last := d.got[len(d.got)-1].id; last != 11 {
			t.Errorf("results %+v", d.got)
		}
	})
}

// spilling are options of one lane that spills.
func spilling(dir string, run func(int, *job, *answer)) LanesOptions[job, answer] {
	return LanesOptions[job, answer]{
		Lanes:  []Lane{{Name: "spills", Capacity: 2, Spill: &ring.SpillOptions{Dir: dir, Memory: 2}}},
		Run:    run,
		Encode: func(in *job) []byte { return binary.BigEndian.AppendUint32(nil, uint32(in.id)) },
		Decode: func(b []byte, in *job) error {
			if len(b) != 4 {
				return errors.New("not a job")
			}
			in.id = int(binary.BigEndian.Uint32(b))
			return nil
		},
	}
}

// TestLaneSpills: what the slots of a stuck worker do not hold goes to disk, comes back in order, and then slots are used
// again; the producer is never held up.
func TestLaneSpills(t *testing.T) {
	gate := make(chan struct{})
	d := newDesk(t, spilling(t.TempDir(), func(_ int, in *job, out *answer) { <-gate; out.id = in.id }))
	d.submit(0, 0, 500)
	if st := d.lanes.Stats()[0]; st.Queued > 2 || st.Spilled < 490 || st.Accepted != 500 {
		t.Errorf("%+v", st)
	}
	close(gate)
	d.collect(500)
	for i, a := range d.got {
		if a.id != i {
			t.Fatalf("result %d is %d", i, a.id)
		}
	}
	if st := d.lanes.Stats()[0]; st.Spilled != 0 {
		t.Errorf("%+v", st)
	}
	d.submit(0, 500, 501)
	d.collect(501)
}

// TestSpillFallsBackToReject: a log that takes nothing makes a full lane reject with the reason, and Stop leaves what is
// in it for the next Start.
func TestSpillFallsBackToReject(t *testing.T) {
	gate := make(chan struct{})
	dir := t.TempDir()
	o := spilling(dir, func(_ int, in *job, out *answer) { <-gate; out.id = in.id })
	o.Lanes[0].Spill.MaxBytes = 60
	d := newDesk(t, o)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = d.lanes.Submit(0, job{id: n})
	}
	if !errors.Is(err, ErrRejected) || !errors.Is(err, ring.ErrFull) || !strings.Contains(err.Error(), "limit 60") {
		t.Errorf("a full log: %v", err)
	}
	accepted := int(d.lanes.Stats()[0].Accepted)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go close(gate)
	lost := d.lanes.Stop(ctx)
	d.lanes.Collect(0, func(a *answer) { d.got = append(d.got, *a) })
	before := len(d.got) + lost
	if before >= accepted {
		t.Fatalf("%d accepted, %d done or lost at Stop: nothing was left in the log", accepted, before)
	}
	if err := d.lanes.Start(); err != nil {
		t.Fatal(err)
	}
	d.collect(accepted - lost)
	if last := d.got[len(d.got)-1].id; last != accepted-1 {
		t.Errorf("the last result is %d, want %d", last, accepted-1)
	}
}

func TestLanesOptions(t *testing.T) {
	run, wake := func(int, *job, *answer) {}, func() error { return nil }
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]LanesOptions[job, answer]{
		"needs Lanes, Run and Wake":                   {Run: run, Wake: wake},
		`lane "a": number of Workers is -1`:           {Run: run, Wake: wake, Lanes: []Lane{{Name: "a", Workers: -1}}},
		`lane "a": limit MaxWorkers is 1, with 2`:     {Run: run, Wake: wake, Lanes: []Lane{{Name: "a", Workers: 2, MaxWorkers: 1}}},
		`lane "a": ring: capacity 3 is not a power`:   {Run: run, Wake: wake, Lanes: []Lane{{Name: "a", Capacity: 3}}},
		`lane "a": Spill needs LanesOptions.Encode`:   {Run: run, Wake: wake, Lanes: []Lane{{Name: "a", Spill: &ring.SpillOptions{Dir: "x"}}}},
		`lane "a": sys: affinity to CPU [1023]: none`: {Run: run, Wake: wake, Lanes: []Lane{{Name: "a", CPUs: []int{1023}}}},
	} {
		if strings.Contains(want, "affinity") && runtime.GOOS != "linux" {
			continue
		}
		if _, err := NewLanes(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLanes = %v, want %q", err, want)
		}
	}
	o := spilling(filepath.Join(file, "sub"), run)
	o.Wake = wake
	l, err := NewLanes(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err == nil || !strings.Contains(err.Error(), `lane "spills"`) {
		t.Errorf("Start = %v", err)
	}
}

// TestLanesAllocateNothing: work and result pass without memory of their own.
func TestLanesAllocateNothing(t *testing.T) {
	woken := make(chan struct{}, 1)
	d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{}}, Wake: func() error { woken <- struct{}{}; return nil }})
	collect := func(*answer) {}
	if n := testing.AllocsPerRun(200, func() {
		if err := d.lanes.Submit(0, job{id: 1}); err != nil {
			t.Fatal(err)
		}
		<-woken
		d.lanes.Collect(0, collect)
	}); n > 0.1 {
		t.Errorf("%v allocations", n)
	}
}

// TestStopWaitsForResults: Stop lets spilled work that is being done end, and then waits until its result was collected.
func TestStopWaitsForResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := newDesk(t, spilling(t.TempDir(), func(_ int, in *job, out *answer) { <-gate; out.id = in.id }))
		d.submit(0, 0, 3) // two in slots
		gate <- struct{}{}
		gate <- struct{}{}
		d.collect(2)
		synctest.Wait()
		if st := d.lanes.Stats()[0]; st.Queued != 0 || st.Spilled != 0 || st.Done != 2 {
			t.Fatalf("the spilled work is not being done: %+v", st)
		}
		stopped := make(chan int, 1)
		go func() { stopped <- d.lanes.Stop(context.Background()) }()
		time.Sleep(time.Second)
		if d.lanes.run.ending.Load() {
			t.Error("Stop ended the worker while it did spilled work")
		}
		gate <- struct{}{}
		time.Sleep(time.Second)
		if len(stopped) > 0 || d.lanes.run.ending.Load() {
			t.Error("Stop did not wait for the consumer")
		}
		d.collect(3)
		if lost := <-stopped; lost != 0 || d.got[2].id != 2 {
			t.Errorf("%d lost, results %+v", lost, d.got)
		}
	})
}

// TestReservedPlaceEndsWithItsWorker: a worker that ends with a place for a result in hand leaves nothing in it for the
// consumer.
func TestReservedPlaceEndsWithItsWorker(t *testing.T) {
	d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{Capacity: 4}}})
	d.lanes.late.Store(true) // as Collect leaves it whose wake failed
	d.lanes.lanes[0].ringAll()
	testkit.Receive(t, "the wake that was owed", d.woken)
	if n := d.lanes.Collect(0, func(*answer) {}); n != 0 {
		t.Fatalf("%d results of no work", n)
	}
	if lost := d.lanes.Stop(context.Background()); lost != 0 {
		t.Fatalf("%d lost", lost)
	}
	if err := d.lanes.Start(); err != nil {
		t.Fatal(err)
	}
	d.submit(0, 7, 8)
	d.collect(1)
	if n := d.lanes.results.Len(); d.got[0].id != 7 || len(d.got) != 1 || n != 0 {
		t.Errorf("results %+v, and %d more", d.got, n)
	}
}
