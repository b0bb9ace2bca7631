package poll

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
)

// TestSignal: between two settles exactly one of many wakers has to wake.
func TestSignal(t *testing.T) {
	var s signal
	for range 100 {
		var first atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					f, err := s.raise()
					if err != nil {
						t.Error(err)
					}
					if f {
						first.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := first.Load(); n != 1 {
			t.Fatalf("%d wakers of one wait", n)
		}
		if !s.pending() || !s.settle() || s.pending() || s.settle() {
			t.Fatal("the mark is not what was left")
		}
	}
}

func TestSignalShut(t *testing.T) {
	for _, raised := range []bool{false, true} {
		var s signal
		if raised {
			s.raise()
		}
		if !s.shut() || s.shut() || !s.closed() || s.pending() || s.settle() {
			t.Errorf("raised %v: wrong answers when shut", raised)
		}
		if first, err := s.raise(); first || !errors.Is(err, sys.ErrPollerClosed) {
			t.Errorf("raised %v: raise after shut: %v, %v", raised, first, err)
		}
	}
}
