package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/ring"
)

// Lane is a queue with workers of its own, so that heavy work cannot delay light work. One producer fills it.
type Lane struct {
	// Name appears in errors and stats.
	Name string

	// Heaviness says how heavy the work of this lane may be; see Lanes.For.
	Heaviness int

	// Workers is the number of goroutines; 0 means 1. One worker handles its lane's work in order.
	Workers int

	// MaxWorkers is the number up to which a full lane starts further workers. 0 means Workers.
	MaxWorkers int

	// Capacity is the number of slots for each worker, a power of two; 0 means 1024.
	Capacity int

	// CPUs gives each worker an operating-system thread of its own on one of these processors, in turn. See
	// Options.CPUs.
	CPUs []int

	// Wait makes the ring.Waiter with which a worker waits for work. When the budget of the Waiter is used up, the
	// worker sleeps until it is woken. With nil a worker sleeps at once, which costs nothing while there is nothing to
	// do.
	Wait func() ring.Waiter

	// Spill, if set, takes the work that does not fit into the slots. Work that does not fit there either is rejected,
	// or told to wait for the disk; see LanesOptions.Room. A lane with one worker handles its work in the order of
	// submission.
	Spill *ring.SpillOptions
}

// LanesOptions configure Lanes. Lanes, Run and Wake are required.
type LanesOptions[In, Out any] struct {
	Lanes []Lane

	// Run does one piece of work of a lane, on a worker, and fills in the result. Run may block. in is valid until Run
	// returns.
	Run func(lane int, in *In, out *Out)

	// Failed fills in the result of work that panicked with v. With nil, the result is what Run had made of it by then.
	Failed func(lane int, in *In, v any, out *Out)

	// Wake tells the consumer to call Collect, because there are results or room. Wake runs on a goroutine of the lanes,
	// in Collect or in Stop, and is not called again before the next Collect. After an error Wake is called again.
	Wake func() error

	// Encode and Decode turn work into bytes and back, for lanes that spill.
	Encode func(in *In) []byte
	Decode func(b []byte, in *In) error

	// Room, if set, makes Submit return ErrWait instead of a refusal while a lane's spill queue only waits for a disk
	// that works. Collect then calls Room, once for the first ErrWait and those that follow, and the producer tries
	// again. Room is called as well when the disk fails and when the lanes stop; Submit then says what is wrong.
	Room func(lane int)

	// OnPanic gets the value of a recovered panic and its stack. It also gets, without a stack, what was wrong with
	// spilled work. nil logs both.
	OnPanic func(v any, stack []byte)
}

// LaneStats are the numbers of one lane.
type LaneStats struct {
	Name     string
	Workers  int
	Queued   int    // work that waits in slots
	Capacity int    // slots of the workers that have been started
	Spilled  int    // work that waits in the spill queue
	Accepted uint64 // work taken
	Rejected uint64 // work refused because the lane was full
	Done     uint64 // results published
	Panics   uint64
	Waited   uint64 // calls of SubmitBlocking that found the lane full, and of Submit that returned ErrWait
	Lost     uint64 // spilled work that could not be decoded, and work that Stop gave up
	Fault    error  // why the spill queue takes or gives nothing at the moment, nil when it works; a full lane rejects meanwhile
}

// Lanes distribute work over lanes and bring all results back through one ring.Mux. Accepted work has exactly one
// result, unless Stop gives the work up or its spilled form cannot be read. Work and results are passed on without an
// allocation or a lock, except in lanes that spill.
//
// Submit and SubmitBlocking belong to one goroutine at a time, the producer. Collect belongs to one, the consumer.
// Mostly a loop is both. Any goroutine may call the other methods, but Stop and Start not at the same time.
type Lanes[In, Out any] struct {
	o       LanesOptions[In, Out]
	lanes   []*lane[In, Out]
	results *ring.Mux[Out]
	rooms   []*ring.Bell // one for each worker, rung when there may be room in results
	waking  atomic.Bool  // the consumer has been woken and has not collected
	late    atomic.Bool  // a wake in Collect failed; an idle worker tries it again
	running atomic.Bool
	workers sync.WaitGroup
	open    func(ring.SpillOptions) (spillQueue, error)

	mu  sync.Mutex
	run *lanesRun // the latest, nil before the first Start
}

// lanesRun is the state from a Start to the end of its Stop.
type lanesRun struct {
	ending  atomic.Bool   // the workers must end
	stop    chan struct{} // closed after ending is set
	hurry   chan struct{} // closed when a Stop has run out of time
	hurried sync.Once
	ended   chan struct{} // closed when no worker is left
	lost    int           // work that was given up; set before ended is closed
}

// lane is the running form of a Lane.
type lane[In, Out any] struct {
	Lane
	index   int
	queue   *ring.Demux[In]
	bells   []*ring.Bell
	first   int // index of its first worker's producer in results
	spill   atomic.Pointer[spillQueue]
	fault   atomic.Pointer[error] // why spill gives nothing
	started atomic.Int32          // workers of this run
	atSpill atomic.Int32          // workers that handle what they took from the spill queue
	waits   atomic.Bool           // the producer was told to wait, and Room is owed
	next    int                   // the worker whose turn it is; producer only

	spilled, rejected, waited, panics, lost atomic.Uint64
}

// NewLanes checks the options and makes the queues. Start starts the workers.
func NewLanes[In, Out any](o LanesOptions[In, Out]) (*Lanes[In, Out], error) {
	if o.Run == nil || o.Wake == nil || len(o.Lanes) == 0 {
		return nil, errors.New("executor: LanesOptions needs Lanes, Run and Wake")
	}
	if o.OnPanic == nil {
		o.OnPanic = logLane
	}
	l := &Lanes[In, Out]{o: o, open: openSpill}
	total, capacity := 0, 1
	for i, spec := range o.Lanes {
		ln, err := newLane[In, Out](i, spec)
		if err != nil {
			return nil, fmt.Errorf("executor: lane %q: %w", spec.Name, err)
		}
		if spec.Spill != nil && (o.Encode == nil || o.Decode == nil) {
			return nil, fmt.Errorf("executor: lane %q: Spill needs LanesOptions.Encode and Decode", spec.Name)
		}
		ln.first = total
		total += ln.MaxWorkers
		for range ln.MaxWorkers {
			l.rooms = append(l.rooms, ring.NewBell())
		}
		capacity = max(capacity, ln.queue.Consumer(0).Cap())
		l.lanes = append(l.lanes, ln)
	}
	var err error
	l.results, err = ring.NewMux[Out](total, capacity)
	return l, err
}

func logLane(v any, stack []byte) {
	if stack == nil {
		slog.Default().Error("executor: spilled work", "err", v)
		return
	}
	slog.Default().Error("executor: panic in a lane", "panic", v, "stack", string(stack))
}

func newLane[In, Out any](index int, spec Lane) (*lane[In, Out], error) {
	switch {
	case spec.Workers < 0:
		return nil, fmt.Errorf("number of Workers is %d, below 0", spec.Workers)
	case spec.MaxWorkers < 0 || spec.MaxWorkers > 0 && spec.MaxWorkers < spec.Workers:
		return nil, fmt.Errorf("limit MaxWorkers is %d, with %d Workers", spec.MaxWorkers, spec.Workers)
	}
	spec.Workers = max(spec.Workers, 1)
	spec.MaxWorkers = max(spec.MaxWorkers, spec.Workers)
	if err := tryCPUs(spec.CPUs); err != nil {
		return nil, err
	}
	ln := &lane[In, Out]{Lane: spec, index: index}
	var err error
	if ln.queue, err = ring.NewDemux[In](spec.MaxWorkers, spec.Capacity); err != nil {
		return nil, err
	}
	for range spec.MaxWorkers {
		ln.bells = append(ln.bells, ring.NewBell())
	}
	return ln, nil
}

// For returns the index of the lightest lane whose Heaviness is at least h, or of the heaviest lane if there is none.
func (l *Lanes[In, Out]) For(h int) int {
	best, heaviest := -1, 0
	for i, ln := range l.lanes {
		if ln.Heaviness > l.lanes[heaviest].Heaviness {
			heaviest = i
		}
		if ln.Heaviness >= h && (best < 0 || ln.Heaviness < l.lanes[best].Heaviness) {
			best = i
		}
	}
	if best < 0 {
		return heaviest
	}
	return best
}

// Start starts the workers. After Stop, Start begins anew with empty lanes, except for what their spill logs hold.
func (l *Lanes[In, Out]) Start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil && !isClosed(l.run.ended) {
		return errors.New("executor: Lanes.Start: they are running")
	}
	for _, ln := range l.lanes {
		if ln.Lane.Spill == nil {
			continue
		}
		s, err := l.open(*ln.Lane.Spill)
		if err != nil {
			l.closeSpills()
			return fmt.Errorf("executor: lane %q: %w", ln.Name, err)
		}
		ln.fault.Store(nil)
		ln.spill.Store(&s)
	}
	run := &lanesRun{stop: make(chan struct{}), hurry: make(chan struct{}), ended: make(chan struct{})}
	l.run = run
	for _, ln := range l.lanes {
		for range ln.Workers {
			l.startWorker(ln)
		}
		if s := ln.spill.Load(); s != nil {
			l.workers.Go(func() { l.watchSpill(ln, *s, run.stop) })
		}
	}
	l.running.Store(true)
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *Lanes[In, Out]) startWorker(ln *lane[In, Out]) {
	w := &laneWorker[In, Out]{lanes: l, lane: ln, of: l.run, cpu: -1}
	i := int(ln.started.Add(1)) - 1
	w.in, w.bell, w.out, w.room = ln.queue.Consumer(i), ln.bells[i], l.results.Producer(ln.first+i), l.rooms[ln.first+i]
	w.portion = max(1, min(w.in.Cap()/4, mostPortion))
	if ln.Wait != nil {
		w.wait = ln.Wait()
	}
	if len(ln.CPUs) > 0 {
		w.cpu = ln.CPUs[i%len(ln.CPUs)]
	}
	l.workers.Go(w.run)
}

// mostPortion is the largest number of slots that are released at once. Slots count as taken until then.
const mostPortion = 16

// Submit hands work to a lane. Submit never blocks. Errors: ErrRejected, which names the lane and its limit; ErrClosed;
// and with LanesOptions.Room also ErrWait. After ErrWait the work was not taken and should be submitted again when Room
// is called. Producer only.
func (l *Lanes[In, Out]) Submit(lane int, in In) error {
	err := l.offer(lane, in)
	for err != nil && l.o.Room != nil && errors.Is(err, ring.ErrBehind) {
		if l.mustWait(l.lanes[lane]) {
			return ErrWait
		}
		err = l.offer(lane, in)
	}
	if err != nil && err != ErrClosed { //nolint:errorlint // our own sentinel, returned bare
		l.lanes[lane].rejected.Add(1)
	}
	return err
}

// SubmitBlocking is Submit, but waits for room as b says. The work is rejected after b's timeout, and at once where b's
// goroutine may not wait, such as on a loop. The error then also wraps ring.ErrNoRoom or ring.ErrMayNotWait. Producer
// only.
func (l *Lanes[In, Out]) SubmitBlocking(b *ring.Blocker, lane int, in In) error {
	err := l.offer(lane, in)
	if err == nil || err == ErrClosed { //nolint:errorlint // our own sentinel, returned bare
		return err
	}
	return l.block(b, lane, in, err)
}

// block is separate from SubmitBlocking, so that only work that waits is moved to the heap.
//
//go:noinline
func (l *Lanes[In, Out]) block(b *ring.Blocker, lane int, in In, err error) error {
	ln := l.lanes[lane]
	ln.waited.Add(1)
	waited := b.Until(func() bool {
		err = l.offer(lane, in)
		return err == nil || err == ErrClosed //nolint:errorlint // our own sentinel, returned bare
	})
	if waited != nil {
		ln.rejected.Add(1)
		return fmt.Errorf("%w: %w", err, waited)
	}
	return err
}

// offer is Submit without counting.
func (l *Lanes[In, Out]) offer(lane int, in In) error {
	ln := l.lanes[lane]
	if !l.running.Load() {
		return ErrClosed
	}
	spill := ln.spill.Load()
	if spill != nil && inSpill(*spill) > 0 { // later work stays behind spilled work
		return l.toSpill(ln, *spill, in)
	}
	n := int(ln.started.Load())
	for range n {
		if ln.next++; ln.next >= n {
			ln.next = 0
		}
		if ln.give(ln.next, in) {
			return nil
		}
	}
	if n < ln.MaxWorkers {
		l.startWorker(ln)
		ln.give(n, in)
		return nil
	}
	if spill != nil {
		return l.toSpill(ln, *spill, in)
	}
	return &LimitError{Pool: ln.Name, What: "each worker of the lane", Limit: ln.queue.Consumer(0).Cap()}
}

// give puts work into a worker's slots.
func (ln *lane[In, Out]) give(i int, in In) bool {
	if !ln.queue.Consumer(i).Send(in) {
		return false
	}
	ln.bells[i].Ring()
	return true
}

// accepted returns how much work was taken.
func (ln *lane[In, Out]) accepted() uint64 {
	n := ln.spilled.Load()
	for i := range ln.MaxWorkers {
		n += ln.queue.Consumer(i).Published()
	}
	return n
}

// done returns how many results were published.
func (l *Lanes[In, Out]) done(ln *lane[In, Out]) (n uint64) {
	for i := range ln.MaxWorkers {
		n += l.results.Producer(ln.first + i).Published()
	}
	return n
}

// ringAll wakes the lane's workers.
func (ln *lane[In, Out]) ringAll() {
	for _, b := range ln.bells[:ln.started.Load()] {
		b.Ring()
	}
}
