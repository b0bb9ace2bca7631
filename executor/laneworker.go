package executor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/ring"
)

// laneWorker is one goroutine of a lane. Each worker fetches from a ring of its own and publishes into another of its
// own.
type laneWorker[In, Out any] struct {
	lanes *Lanes[In, Out]
	lane  *lane[In, Out]
	in    *ring.SPSC[In]
	out   *ring.SPSC[Out]
	bell  *ring.Bell
	wait  ring.Waiter // nil: it sleeps on the bell at once
	of    *lanesRun
	cpu   int
	owed  bool // a wake failed and must be tried again

	portion int // largest number of slots that are released together

	place *Out       // slot for the next result, nil until reserve has got one
	room  *ring.Bell // rung when results were collected

	something, roomy func() bool // hasWork and hasRoom, as values
}

// errExited stands for the value of a panic when work ended its goroutine by runtime.Goexit.
var errExited = errors.New("executor: the work ended its goroutine")

// wakePause and faultPause are the times between two attempts to wake the consumer and to read the spill queue.
const (
	wakePause  = time.Millisecond
	faultPause = 100 * time.Millisecond
)

func (w *laneWorker[In, Out]) run() {
	pinTo(w.cpu, w.lane.Name)
	w.something, w.roomy = w.hasWork, w.hasRoom
	exited := true
	defer func() {
		if exited {
			w.lanes.workers.Go(w.run) // the goroutine was ended by runtime.Goexit
		}
	}()
	for !w.stopped() {
		// The slot for a result comes first, so that no work is taken that would have none.
		if w.hasWork() && w.reserve() && (w.fromRing() || w.fromSpill()) {
			if w.wait != nil {
				w.wait.Reset()
			}
			continue
		}
		w.idle()
	}
	w.out.Withdraw()
	exited = false
}

func (w *laneWorker[In, Out]) stopped() bool { return w.of.ending.Load() }

// fromRing handles a portion of the work in the worker's own ring. The slots stay taken until the results are published,
// so an empty ring means that nothing is on its way. The slots are released together. Each result is published by
// itself, so that none waits for slow work behind it.
func (w *laneWorker[In, Out]) fromRing() bool {
	n := min(w.in.Available(), w.portion)
	if n == 0 {
		return false
	}
	defer w.in.Release()
	w.handle(nil, n)
	return true
}

// fromSpill handles the next work of the lane's spill queue. While the spill queue holds work, the producer puts nothing
// into the ring. So work that is in the ring after that check is older and comes first.
func (w *laneWorker[In, Out]) fromSpill() bool {
	spill := w.lane.spill.Load()
	if spill == nil || inSpill(*spill) == 0 {
		return false
	}
	if w.in.Available() > 0 {
		return true
	}
	w.lane.atSpill.Add(1)
	b, err := (*spill).TryRecv()
	if err == nil && b != nil {
		defer w.lane.atSpill.Add(-1)
		w.spilled(b)
		return true
	}
	w.lane.atSpill.Add(-1)
	if err == nil || errors.Is(err, ring.ErrClosed) {
		return false
	}
	w.unreadable(err)
	return true
}

// spilled handles a piece of work from the spill queue.
func (w *laneWorker[In, Out]) spilled(b []byte) {
	if w.lane.fault.Load() != nil {
		w.lane.fault.Store(nil)
	}
	var in In
	if err := w.lanes.o.Decode(b, &in); err != nil {
		w.lane.lost.Add(1)
		w.lanes.o.OnPanic(err, nil)
		return
	}
	w.handle(&in, 1)
}

// unreadable reports once that the spill queue cannot be read, and waits before the next attempt. Nothing is lost: the
// work stays in the queue, and the lane rejects until the queue can be read again.
func (w *laneWorker[In, Out]) unreadable(err error) {
	err = fmt.Errorf("the spilled work cannot be read: %w", err)
	if w.lane.fault.Swap(&err) == nil {
		w.lanes.o.OnPanic(fmt.Errorf("executor: lane %q: %w", w.lane.Name, err), nil)
	}
	select {
	case <-w.of.stop:
	case <-time.After(faultPause):
	}
}

// handle does the one piece of work that came from the spill queue, or up to n from the ring, and publishes the results.
// A panic is contained and ends the portion. The caller has reserved the slot for the first result.
func (w *laneWorker[In, Out]) handle(spilled *In, n int) {
	var in *In // the work being done, nil between two
	defer func() {
		if in != nil {
			w.failed(in, recover())
		}
	}()
	for ; n > 0 && w.reserve(); n-- {
		if in = spilled; in == nil {
			in = w.in.Fetch()
		}
		w.lanes.o.Run(w.lane.index, in, w.place)
		in = nil
		w.publish()
		if w.stopped() {
			return
		}
	}
}

// failed publishes the result of work that panicked with v or, if v is nil, ended its goroutine.
func (w *laneWorker[In, Out]) failed(in *In, v any) {
	defer w.publish()
	if v == nil {
		v = errExited
	}
	w.lane.panics.Add(1)
	w.lanes.o.OnPanic(v, debug.Stack())
	if w.lanes.o.Failed != nil {
		w.lanes.o.Failed(w.lane.index, in, v, w.place)
	}
}

// reserve gets a slot for the next result. It reports false when the worker is stopped before there is one.
func (w *laneWorker[In, Out]) reserve() bool {
	for w.place == nil {
		if w.place = w.out.Next(); w.place != nil {
			break
		}
		w.lanes.late.Store(false) // tell makes the wake that late asks for
		if w.tell(); w.owed {
			select {
			case <-w.of.stop:
				return false
			case <-time.After(wakePause):
			}
		} else if !w.room.Wait(w.roomy, w.of.stop) {
			return false
		}
	}
	return true
}

// hasRoom reports whether reserve should try again.
func (w *laneWorker[In, Out]) hasRoom() bool {
	return w.out.Len() < w.out.Cap() || w.lanes.late.Load()
}

func (w *laneWorker[In, Out]) publish() {
	w.place = nil
	w.out.Publish()
	w.tell()
}

// tell wakes the consumer. If that fails, the worker owes another attempt.
func (w *laneWorker[In, Out]) tell() { w.owed = w.lanes.wake() != nil }

// idle waits until there may be something to do.
func (w *laneWorker[In, Out]) idle() {
	if !w.owed && w.lanes.late.Load() {
		w.owed = w.lanes.late.Swap(false)
	}
	switch {
	case w.owed:
		select {
		case <-w.of.stop:
		case <-time.After(wakePause):
			w.tell()
		}
	case w.wait != nil && !w.wait.Wait(): // its budget is not used up
	default:
		w.bell.Wait(w.something, w.of.stop)
	}
}

func (w *laneWorker[In, Out]) hasWork() bool {
	if w.in.Available() > 0 || w.lanes.late.Load() {
		return true
	}
	s := w.lane.spill.Load()
	if s == nil {
		return false
	}
	st := (*s).Stats()
	return st.Memory+st.Disk > 0
}
