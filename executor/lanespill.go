package executor

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy/ring"
)

// This file moves work through a lane's spill queue, and tells the producer when to wait and when to go on.

// spillQueue is the part of ring.Spill that lanes use; tests put faults behind it.
type spillQueue interface {
	Send(msg []byte) error
	TryRecv() ([]byte, error)
	Behind() bool
	Ready() <-chan struct{}
	Stats() ring.SpillStats
	Close() error
}

func openSpill(o ring.SpillOptions) (spillQueue, error) { return ring.OpenSpill(o) }

// toSpill is separate from Submit, so that only work that goes to the spill queue is moved to the heap.
//
//go:noinline
func (l *Lanes[In, Out]) toSpill(ln *lane[In, Out], spill spillQueue, in In) error {
	if fault := ln.fault.Load(); fault != nil { // work put behind unreadable work may never come back
		return fmt.Errorf("%w: lane %q: %w", ErrRejected, ln.Name, *fault)
	}
	if err := spill.Send(l.o.Encode(&in)); err != nil {
		return fmt.Errorf("%w: lane %q: %w", ErrRejected, ln.Name, err)
	}
	ln.spilled.Add(1)
	ln.ringAll()
	return nil
}

// inSpill returns how much work is in the spill queue.
func inSpill(s spillQueue) int {
	st := s.Stats()
	return st.Memory + st.Waiting + st.Disk
}

// watchSpill wakes the workers when the spill queue has something for them, and the consumer when Room is due. It
// reports once that the disk takes nothing.
func (l *Lanes[In, Out]) watchSpill(ln *lane[In, Out], s spillQueue, stop <-chan struct{}) {
	told := false
	var again <-chan time.Time // set when tellRoom has failed and must be called again
	for {
		select {
		case <-s.Ready():
			ln.ringAll()
		case <-again:
		case <-stop:
			return
		}
		if again = nil; l.tellRoom(ln) != nil {
			again = time.After(wakePause)
		}
		fault := s.Stats().Fault
		if fault != nil && !told {
			l.o.OnPanic(fmt.Errorf("executor: lane %q: what the lane cannot hold is not spilled: %w", ln.Name, fault), nil)
		}
		told = fault != nil
	}
}

// mustWait notes that Room is owed, after work found the spill queue behind. It reports false, and Room is not owed,
// when there is room by now.
func (l *Lanes[In, Out]) mustWait(ln *lane[In, Out]) bool {
	first := !ln.waits.Swap(true)
	if first && l.mayGoOn(ln) && ln.waits.CompareAndSwap(true, false) {
		return false
	}
	ln.waited.Add(1)
	return true
}

// mayGoOn reports whether Room is due: a producer waits, and no longer has a reason to.
func (l *Lanes[In, Out]) mayGoOn(ln *lane[In, Out]) bool {
	if !ln.waits.Load() {
		return false
	}
	spill := ln.spill.Load()
	return spill == nil || !l.running.Load() || !(*spill).Behind()
}

// tellRoom wakes the consumer if Room is due.
func (l *Lanes[In, Out]) tellRoom(ln *lane[In, Out]) error {
	if !l.mayGoOn(ln) {
		return nil
	}
	return l.wake()
}

// goOn calls Room for the lanes for which it is due. Only Collect calls goOn.
func (l *Lanes[In, Out]) goOn() {
	for i, ln := range l.lanes {
		if l.mayGoOn(ln) && ln.waits.CompareAndSwap(true, false) {
			l.o.Room(i)
		}
	}
}

func (l *Lanes[In, Out]) closeSpills() {
	for _, ln := range l.lanes {
		s := ln.spill.Swap(nil)
		if s == nil {
			continue
		}
		if err := (*s).Close(); err != nil {
			slog.Default().Error("executor: closing the spill queue", "lane", ln.Name, "err", err)
		}
	}
}
