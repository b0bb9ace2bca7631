package executor

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/ring"
)

// laneWorker is one goroutine of a lane. It fetches from its own ring and publishes into its own.
type laneWorker[In, Out any] struct {
	lanes *Lanes[In, Out]
	lane  *lane[In, Out]
	in    *ring.SPSC[In]
	out   *ring.SPSC[Out]
	bell  *ring.Bell
	wait  ring.Waiter // nil: the bell
	stop  <-chan struct{}
	cpu   int
	owed  bool // a wake that failed

	place *Out        // for the next result, nil when it has to be asked for
	work  func() bool // hasWork, as a value
}

// errExited stands for the value of a panic when work ended its goroutine.
var errExited = errors.New("executor: the work ended its goroutine")

// Pauses of a worker that cannot go on by itself.
const (
	resultPause = 20 * time.Microsecond
	wakePause   = time.Millisecond
)

func (w *laneWorker[In, Out]) run() {
	pinTo(w.cpu, w.lane.Name)
	w.work = w.hasWork
	exited := true
	defer func() {
		if exited {
			w.lanes.workers.Go(w.run) // the goroutine was ended by runtime.Goexit
		}
	}()
	for !w.stopped() && w.reserve() { // the place first, so that nothing is taken that would have none
		switch {
		case w.fromRing(), w.fromSpill():
			if w.wait != nil {
				w.wait.Reset()
			}
		default:
			w.idle()
		}
	}
	w.out.Withdraw()
	exited = false
}

func (w *laneWorker[In, Out]) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// fromRing handles what is in the worker's own ring. Its slot stays taken until the result is published, so that an
// empty ring means that nothing is on its way.
func (w *laneWorker[In, Out]) fromRing() bool {
	in := w.in.Fetch()
	if in == nil {
		return false
	}
	defer w.in.Release()
	w.handle(in)
	return true
}

// fromSpill handles the next work of the lane's spill queue. While something is there the producer puts nothing into the
// ring, so a look at the ring after that tells whether there is older work.
func (w *laneWorker[In, Out]) fromSpill() bool {
	spill := w.lane.spill.Load()
	if spill == nil || inSpill(spill) == 0 {
		return false
	}
	if w.in.Available() > 0 {
		return true
	}
	w.lane.atSpill.Add(1)
	defer w.lane.atSpill.Add(-1)
	b, err := spill.TryRecv()
	if b == nil && err == nil || errors.Is(err, ring.ErrClosed) {
		return false
	}
	var in In
	if err == nil {
		err = w.lanes.o.Decode(b, &in)
	}
	if err != nil {
		w.lane.lost.Add(1)
		w.lanes.o.OnPanic(err, nil)
		return true
	}
	w.handle(&in)
	return true
}

// handle does one piece of work and publishes its result.
func (w *laneWorker[In, Out]) handle(in *In) {
	defer w.publish()
	w.call(in, w.place)
}

// reserve makes sure of a place for the next result, and reports false when the worker is stopped before there is one.
func (w *laneWorker[In, Out]) reserve() bool {
	for w.place == nil {
		if w.place = w.out.Next(); w.place != nil {
			break
		}
		w.tell()
		select {
		case <-w.stop:
			return false
		case <-time.After(resultPause):
		}
	}
	return true
}

// call runs the work and contains its panic.
func (w *laneWorker[In, Out]) call(in *In, out *Out) {
	done := false
	defer func() {
		if done {
			return
		}
		v := recover()
		if v == nil {
			v = errExited
		}
		w.lane.panics.Add(1)
		w.lanes.o.OnPanic(v, debug.Stack())
		if w.lanes.o.Failed != nil {
			w.lanes.o.Failed(w.lane.index, in, v, out)
		}
	}()
	w.lanes.o.Run(w.lane.index, in, out)
	done = true
}

func (w *laneWorker[In, Out]) publish() {
	w.place = nil
	w.out.Publish()
	w.lane.done.Add(1)
	w.tell()
}

// tell wakes the consumer; if that fails the worker owes it another attempt.
func (w *laneWorker[In, Out]) tell() { w.owed = w.lanes.wake() != nil }

// idle passes the time until there may be something to do.
func (w *laneWorker[In, Out]) idle() {
	if !w.owed && w.lanes.late.Load() {
		w.owed = w.lanes.late.Swap(false)
	}
	switch {
	case w.owed:
		select {
		case <-w.stop:
		case <-time.After(wakePause):
			w.tell()
		}
	case w.wait != nil:
		w.wait.Wait()
	default:
		w.bell.Wait(w.work, w.stop)
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
	st := s.Stats()
	return st.Memory+st.Disk > 0
}
