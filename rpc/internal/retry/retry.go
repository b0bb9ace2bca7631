// Package retry says how long to wait before something is tried again.
package retry

import (
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// Schedule counts failures and says how long to pause after each. One goroutine uses a Schedule.
type Schedule struct {
	Min, Max time.Duration  // the pause after the first failure, which doubles with each further one up to Max
	Jitter   float64        // the part of a pause by which it is longer or shorter at most, from 0 to 1
	Random   func() float64 // from 0 to 1

	failures int
}

// Failed counts a failure and returns the pause before the next attempt.
func (s *Schedule) Failed() time.Duration {
	s.failures++
	d := s.Min
	for n := s.failures; n > 1 && d < s.Max; n-- {
		d += min(d, s.Max-d)
	}
	jitter := time.Duration(s.Jitter * (2*s.Random() - 1) * float64(d))
	return max(0, time.Duration(wheel.After(int64(d), jitter)))
}

// Succeeded begins anew.
func (s *Schedule) Succeeded() { s.failures = 0 }
