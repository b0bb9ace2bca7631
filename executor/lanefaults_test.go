package executor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/ring"
)

// TestCollectWhoseWakeFails: what Collect leaves is told again, also when telling fails at first and no worker has
// anything to do.
func TestCollectWhoseWakeFails(t *testing.T) {
	woken := make(chan struct{}, 1)
	var refuse atomic.Bool
	l, err := NewLanes(LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "a"}, {Name: "b"}},
		Run:   func(_ int, in *job, out *answer) { out.id = in.id },
		Wake: func() error {
			if refuse.Swap(false) {
				return errors.New("the loop's queue is full")
			}
			woken <- struct{}{}
			return nil
		},
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Stop(ctx)
	}()
	for i := range 3 {
		if err := l.Submit(1, job{id: i}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the results", func() bool { return l.Stats()[1].Done == 3 })
	for got := 0; got < 3; {
		testkit.Receive(t, "the next result", woken)
		refuse.Store(got == 0)
		got += l.Collect(1, func(*answer) {})
	}
}

// brokenSpill is a spill queue that cannot be read while broken is set.
type brokenSpill struct {
	*ring.Spill
	broken atomic.Bool
	tries  atomic.Int64
}

func (b *brokenSpill) TryRecv() ([]byte, error) {
	if b.broken.Load() {
		b.tries.Add(1)
		return nil, syscall.EIO
	}
	return b.Spill.TryRecv()
}

// TestUnreadableSpill: while a spill log cannot be read its lane rejects with the reason, tells it once, asks the disk now
// and then instead of all the time, and counts nothing as lost; when it can be read again everything comes in order. Stop
// does not wait for the disk.
func TestUnreadableSpill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		o := spilling(t.TempDir(), func(_ int, in *job, out *answer) { <-gate; out.id = in.id })
		broken := new(brokenSpill)
		var told []string
		var mu sync.Mutex
		d := &desk{t: t, woken: make(chan struct{}, 1)}
		o.Wake = func() error { d.woken <- struct{}{}; return nil }
		o.OnPanic = func(v any, _ []byte) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, v.(error).Error())
		}
		var err error
		if d.lanes, err = NewLanes(o); err != nil {
			t.Fatal(err)
		}
		d.lanes.open = func(o ring.SpillOptions) (spillQueue, error) {
			broken.Spill, err = ring.OpenSpill(o)
			return broken, err
		}
		if err := d.lanes.Start(); err != nil {
			t.Fatal(err)
		}
		d.submit(0, 0, 50)
		broken.broken.Store(true)
		close(gate)
		d.collect(2) // what the slots hold
		testkit.Eventually(t, "the fault", func() bool { return d.lanes.Stats()[0].Fault != nil })
		if st := d.lanes.Stats()[0]; !errors.Is(st.Fault, syscall.EIO) || st.Lost != 0 || st.Spilled != 48 {
			t.Errorf("%+v", st)
		}
		err = d.lanes.Submit(0, job{id: 50})
		if !errors.Is(err, ErrRejected) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), `lane "spills"`) {
			t.Errorf("behind work that cannot be read: %v", err)
		}
		before := broken.tries.Load()
		time.Sleep(20 * faultPause)
		if n := broken.tries.Load() - before; n < 19 || n > 21 {
			t.Errorf("%d attempts, 20 were due", n)
		}
		broken.broken.Store(false)
		d.collect(50)
		for i, a := range d.got {
			if a.id != i {
				t.Fatalf("result %d is %d", i, a.id)
			}
		}
		mu.Lock()
		if len(told) != 1 || !strings.Contains(told[0], `lane "spills": the spilled work cannot be read: `+syscall.EIO.Error()) {
			t.Errorf("told %q", told)
		}
		mu.Unlock()
		if st := d.lanes.Stats()[0]; st.Fault != nil || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
		d.submit(0, 50, 51)
		d.collect(51)

		broken.broken.Store(true)
		gate = make(chan struct{})
		for range 20 { // some of them in the log
			_ = d.lanes.Submit(0, job{})
		}
		close(gate)
		synctest.Wait()
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d.lanes.Stop(ctx)
		if took := time.Since(begin); took > 0 {
			t.Errorf("Stop waited for a log that cannot be read, for %v", took)
		}
	})
}

// lookedAt is a spill queue whose next two looks at the numbers by a worker are led by the test.
type lookedAt struct {
	*ring.Spill
	state      atomic.Int32 // 1: the next look finds something that is not there; 2: the one after that is held
	at, resume chan struct{}
}

func (l *lookedAt) Stats() ring.SpillStats {
	switch {
	case l.state.CompareAndSwap(1, 2):
		return ring.SpillStats{Memory: 1}
	case l.state.CompareAndSwap(2, 0):
		l.at <- struct{}{}
		<-l.resume
	}
	return l.Spill.Stats()
}

// TestSlotsBeforeSpill: what came into the slots after a worker has looked there is done before what spilled after it.
func TestSlotsBeforeSpill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := spilling(t.TempDir(), func(_ int, in *job, out *answer) { out.id = in.id })
		o.OnPanic = func(any, []byte) {}
		d := &desk{t: t, woken: make(chan struct{}, 1)}
		o.Wake = func() error { d.woken <- struct{}{}; return nil }
		var err error
		if d.lanes, err = NewLanes(o); err != nil {
			t.Fatal(err)
		}
		spill := &lookedAt{at: make(chan struct{}), resume: make(chan struct{})}
		d.lanes.open = func(o ring.SpillOptions) (spillQueue, error) {
			spill.Spill, err = ring.OpenSpill(o)
			return spill, err
		}
		if err := d.lanes.Start(); err != nil {
			t.Fatal(err)
		}
		defer d.lanes.Stop(context.Background())
		synctest.Wait() // the worker sleeps
		spill.state.Store(1)
		d.lanes.lanes[0].ringAll()
		testkit.Receive(t, "the worker, which found no slot taken, at the spill queue", spill.at)
		d.submit(0, 0, 4) // two fit into the slots
		spill.resume <- struct{}{}
		d.collect(4)
		for i, a := range d.got {
			if a.id != i {
				t.Fatalf("results %+v", d.got)
			}
		}
	})
}

// fullDisk is a spill queue whose disk takes nothing while full is set.
type fullDisk struct {
	*ring.Spill
	full  atomic.Bool
	ready chan struct{}
}

func (f *fullDisk) Ready() <-chan struct{} { return f.ready }

func (f *fullDisk) Stats() ring.SpillStats {
	st := f.Spill.Stats()
	if f.full.Load() {
		st.Fault = syscall.ENOSPC
	}
	return st
}

// TestFullDiskIsTold: that a disk takes nothing is told once each time it begins, and can be seen while it lasts.
func TestFullDiskIsTold(t *testing.T) {
	o := spilling(t.TempDir(), func(_ int, in *job, out *answer) {})
	disk := &fullDisk{ready: make(chan struct{})}
	told := make(chan string, 10)
	o.OnPanic = func(v any, _ []byte) { told <- v.(error).Error() }
	o.Wake = func() error { return nil }
	l, err := NewLanes(o)
	if err != nil {
		t.Fatal(err)
	}
	l.open = func(o ring.SpillOptions) (spillQueue, error) {
		disk.Spill, err = ring.OpenSpill(o)
		return disk, err
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		disk.full.Store(true)
		for range 3 {
			disk.ready <- struct{}{}
		}
		if st := l.Stats()[0]; !errors.Is(st.Fault, syscall.ENOSPC) {
			t.Errorf("%+v", st)
		}
		disk.full.Store(false)
		for range 2 { // the first may be taken before the look of the last one above
			disk.ready <- struct{}{}
		}
	}
	l.Stop(context.Background())
	close(told)
	n := 0
	for text := range told {
		if n++; !strings.Contains(text, `lane "spills": what the lane cannot hold is not spilled: `+syscall.ENOSPC.Error()) {
			t.Errorf("told %q", text)
		}
	}
	if n != 2 {
		t.Errorf("told %d times, want 2", n)
	}
}

// TestStopTwice: a Stop beside another one returns when the workers have ended, not before, with the same number; the
// first context that ends counts for both.
func TestStopTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, running := make(chan struct{}), make(chan struct{}, 10)
		d := newDesk(t, LanesOptions[job, answer]{
			Lanes: []Lane{{Name: "one", Capacity: 8}},
			Run:   func(_ int, in *job, out *answer) { running <- struct{}{}; <-gate },
		})
		d.submit(0, 0, 5)
		<-running
		first, second := make(chan int, 1), make(chan int, 1)
		go func() { first <- d.lanes.Stop(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { second <- d.lanes.Stop(ctx) }()
		if err := d.lanes.Start(); err == nil {
			t.Error("started before the end")
		}
		synctest.Wait()
		if d.lanes.run.ending.Load() {
			t.Error("the workers are ended before a context is")
		}
		cancel()
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Fatal("Stop returned while a worker was in Run")
		}
		if !d.lanes.run.ending.Load() {
			t.Error("the context of the second Stop does not count")
		}
		close(gate)
		if a, b := <-first, <-second; a != 4 || b != 4 {
			t.Errorf("lost %d and %d, want 4", a, b)
		}
		if st := d.lanes.Stats()[0]; st.Lost != 4 || st.Workers != 0 {
			t.Errorf("%+v", st)
		}
		if n := new(Lanes[job, answer]).Stop(ctx); n != 0 {
			t.Errorf("Stop before Start = %d", n)
		}
	})
}

// TestSubmitBlocking: full lanes let a producer wait that may, and refuse one that may not, such as a loop, without
// waiting; neither waits for ever.
func TestSubmitBlocking(t *testing.T) {
	gate := make(chan struct{})
	d := newDesk(t, LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "heavy", Capacity: 2}},
		Run:   func(_ int, in *job, out *answer) { <-gate; out.id = in.id },
	})
	blocker := func(may func() bool, timeout time.Duration) *ring.Blocker {
		b, err := ring.NewBlocker(may, ring.Sleep(time.Microsecond, 0), timeout)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	onALoop := blocker(nobody, time.Hour)
	for i := range 2 {
		if err := d.lanes.SubmitBlocking(onALoop, 0, job{id: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.lanes.SubmitBlocking(onALoop, 0, job{}); !errors.Is(err, ErrRejected) || !errors.Is(err, ring.ErrMayNotWait) ||
		!strings.Contains(err.Error(), `"heavy"`) {
		t.Errorf("on a loop: %v", err)
	}
	if err := d.lanes.SubmitBlocking(blocker(anyone, time.Millisecond), 0, job{}); !errors.Is(err, ErrRejected) || !errors.Is(err, ring.ErrNoRoom) {
		t.Errorf("without room: %v", err)
	}
	if st := d.lanes.Stats()[0]; st.Rejected != 2 || st.Waited != 2 || st.Accepted != 2 {
		t.Errorf("%+v", st)
	}
	sent := make(chan error, 1)
	go func() {
		b := blocker(anyone, testkit.Patience)
		for i := 2; i < 200; i++ {
			if err := d.lanes.SubmitBlocking(b, 0, job{id: i}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	close(gate)
	d.collect(200)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for i, a := range d.got {
		if a.id != i {
			t.Fatalf("result %d is %d", i, a.id)
		}
	}
	d.lanes.Stop(context.Background())
	if err := d.lanes.SubmitBlocking(onALoop, 0, job{}); err != ErrClosed {
		t.Errorf("after Stop: %v", err)
	}
}

// TestWaitThenSleep: a worker waits as Lane.Wait says for as long as its budget lasts, and then sleeps until it is woken.
func TestWaitThenSleep(t *testing.T) {
	w := &countedWait{budget: 3}
	d := newDesk(t, LanesOptions[job, answer]{Lanes: []Lane{{Name: "one", Wait: func() ring.Waiter { return w }}}})
	for i := range 3 {
		testkit.Eventually(t, "the end of the budget", func() bool { return w.left.Load() == 0 })
		before := w.waits.Load()
		d.submit(0, i, i+1)
		d.collect(i + 1)
		testkit.Eventually(t, "the end of the next budget", func() bool { return w.waits.Load() >= before+3 && w.left.Load() == 0 })
	}
	if n := w.waits.Load(); n > 40 {
		t.Errorf("%d waits for 4 budgets of 3: the worker does not sleep", n)
	}
}

type countedWait struct {
	budget      int64
	waits, left atomic.Int64
}

func (c *countedWait) Wait() bool {
	n := c.waits.Add(1)
	done := n%c.budget == 0
	if done {
		c.left.Store(0)
	}
	return done
}

func (c *countedWait) Reset() { c.left.Store(1) }
