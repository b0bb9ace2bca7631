package reactor

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// rig is a loop that tests step by hand, with the clock, the poller and the resident that it needs. Time stands still but
// for what the test says.
type rig struct {
	*Loop[func()]
	t      testing.TB
	now    int64
	log    bytes.Buffer
	poller *fakePoller // the latest

	perWait time.Duration // passes in each Wait
	openErr error         // of opening a poller
	waitErr error         // of the Waits of every poller
	pauses  []time.Duration

	// As a resident.
	input    bool          // waits to be handled
	served   func()        // when something is ready
	ioTime   time.Duration // that serving takes
	lives    bool          // something lives on the loop
	faults   int
	panicked []any
}

// newRig makes a loop with the settings, of which zero is what a Group has by default.
func newRig(t testing.TB, set Settings) *rig {
	t.Helper()
	r := &rig{Loop: new(Loop[func()]), t: t, now: int64(time.Hour)}
	set.TaskQueue = cmp.Or(set.TaskQueue, 1<<16)
	set.MaxEvents = cmp.Or(set.MaxEvents, 4096)
	set.IORatio = cmp.Or(set.IORatio, 50)
	set.TaskBudget = cmp.Or(set.TaskBudget, 1024)
	set.MinTasks = cmp.Or(set.MinTasks, 64)
	k := &Kernel{Clock: r, Open: r.open, Pause: func(d time.Duration, _ <-chan struct{}) {
		r.pauses = append(r.pauses, d)
		r.now += int64(d)
	}}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := r.Init(r, "worker-0", &set, k, log, new(sample.Lines)); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) open() (sys.Poller, error) {
	if r.openErr != nil {
		return nil, r.openErr
	}
	r.poller = &fakePoller{rig: r, regs: map[int]uint64{}}
	return r.poller, nil
}

// Now and Wall make the rig a sys.Clock.
func (r *rig) Now() int64      { return r.now }
func (r *rig) Wall() time.Time { return time.Unix(0, r.now) }

// submit queues n tasks that take the given time each and count themselves.
func (r *rig) submit(n int, each time.Duration, ran *int) {
	r.t.Helper()
	for range n {
		if err := r.Tasks.Push(func() { *ran++; r.now += int64(each) }); err != nil {
			r.t.Fatal(err)
		}
	}
}

// after arms a timer of the loop itself.
func (r *rig) after(d time.Duration, f func()) *Timer {
	r.t.Helper()
	t, err := r.After(nil, d, f)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) Begin() bool { return r.input }
func (r *rig) RunTask(f func()) {
	f()
}

func (r *rig) Events(events []sys.Event) int {
	for _, ev := range events {
		if !r.Ready(ev) && r.served != nil {
			r.served()
		}
	}
	if len(events) > 0 {
		r.now += int64(r.ioTime)
	}
	return 0
}

func (r *rig) FinishCloses()                           {}
func (r *rig) Finish()                                 { r.RunTimers(1024) }
func (r *rig) Waiting() bool                           { return r.input }
func (r *rig) Deadline() (int64, bool)                 { return 0, false }
func (r *rig) Publish()                                {}
func (r *rig) Leave()                                  { r.lives = false }
func (r *rig) Empty() bool                             { return !r.lives }
func (r *rig) Last() bool                              { return false }
func (r *rig) Panicked(v any)                          { r.panicked = append(r.panicked, v) }
func (r *rig) Faulted()                                { r.faults++ }
func (r *rig) Orphaned()                               {}
func (r *rig) Migrate(sys.Poller) (migrated, lost int) { return 0, 0 }

func (r *rig) Call(_ Owner, f func()) {
	defer func() {
		if v := recover(); v != nil {
			r.Panicked(v)
		}
	}()
	f()
}

func (r *rig) expect(c meter.Counter, want uint64) {
	r.t.Helper()
	if n := r.Counters[c]; n != want {
		r.t.Errorf("counter %d is %d, want %d", c, n, want)
	}
}

// fakePoller never waits. Registered descriptors are ready when the test says so.
type fakePoller struct {
	rig      *rig
	regs     map[int]uint64 // tokens by descriptor
	ready    []int          // descriptors, in the next Waits
	timeouts []time.Duration
	wakes    int
	closed   int
	err      error // of the next Waits
	refuse   int   // the descriptor that Add refuses
	onWait   func()
}

var errRefused = errors.New("refused")

func (p *fakePoller) Add(fd int, _ sys.Interest, token uint64) error {
	if fd == p.refuse {
		return errRefused
	}
	p.regs[fd] = token
	return nil
}

func (p *fakePoller) Modify(int, sys.Interest, uint64) error { return nil }
func (p *fakePoller) Remove(fd int) error                    { delete(p.regs, fd); return nil }

func (p *fakePoller) Wait(events []sys.Event, timeout time.Duration) (n int, err error) {
	p.timeouts = append(p.timeouts, timeout)
	p.rig.now += int64(p.rig.perWait)
	if p.onWait != nil {
		p.onWait()
	}
	if err := cmp.Or(p.err, p.rig.waitErr); err != nil {
		return 0, err
	}
	for _, fd := range p.ready {
		if token, ok := p.regs[fd]; ok && n < len(events) {
			events[n] = sys.Event{Token: token, Ready: sys.Readable}
			n++
		}
	}
	return n, nil
}

func (p *fakePoller) Wake() error  { p.wakes++; return nil }
func (p *fakePoller) Close() error { p.closed++; return nil }
func (p *fakePoller) Name() string { return "fake" }
