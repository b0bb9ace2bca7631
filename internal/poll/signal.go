package poll

import (
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/sys"
)

// signal is the mark that Wake leaves and the end of a Wait removes. It tells
// which of many wakers has to wake the waiter, and outlives the poller.
type signal struct{ state atomic.Uint32 }

const (
	signalIdle = iota
	signalRaised
	signalClosed
)

// raise leaves the mark. first says that the caller has to wake the waiter.
// Otherwise another waker does that, and the mark is not answered yet. Any
// goroutine.
func (s *signal) raise() (first bool, err error) {
	if s.state.CompareAndSwap(signalIdle, signalRaised) {
		return true, nil
	}
	if s.state.Load() == signalClosed {
		return false, sys.ErrPollerClosed
	}
	return false, nil
}

// pending reports whether the mark is there.
func (s *signal) pending() bool { return s.state.Load() == signalRaised }

// settle removes the mark and reports whether it was there. The owner calls it
// as the last step of a Wait.
func (s *signal) settle() bool {
	return s.pending() && s.state.CompareAndSwap(signalRaised, signalIdle)
}

// shut makes every further raise fail. It reports false if the signal was shut
// before.
func (s *signal) shut() bool { return s.state.Swap(signalClosed) != signalClosed }

func (s *signal) closed() bool { return s.state.Load() == signalClosed }
