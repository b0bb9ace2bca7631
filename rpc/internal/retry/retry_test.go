package retry

import (
	"math"
	"testing"
	"time"
)

// TestSchedule: the pause doubles up to the maximum, plus and minus the jitter, and begins anew after a success.
func TestSchedule(t *testing.T) {
	for random, part := range map[float64]time.Duration{0: 1, 0.5: 2, 1: 3} { // halves
		s := Schedule{Min: 100 * time.Millisecond, Max: time.Second, Jitter: 0.5, Random: func() float64 { return random }}
		for range 2 {
			for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
				if got := s.Failed(); got != want*time.Millisecond*part/2 {
					t.Errorf("random %v: %v, want %v", random, got, want*time.Millisecond*part/2)
				}
			}
			s.Succeeded()
		}
	}
}

// TestLongestSchedule: pauses at the end of time do not overflow.
func TestLongestSchedule(t *testing.T) {
	for _, s := range []Schedule{{Min: math.MaxInt64, Max: math.MaxInt64, Jitter: 1}, {Min: math.MaxInt64/2 + 1, Max: math.MaxInt64}} {
		s.Random = func() float64 { return 0.9 }
		s.Failed()
		if d := s.Failed(); d != math.MaxInt64 {
			t.Errorf("%v", d)
		}
	}
}
