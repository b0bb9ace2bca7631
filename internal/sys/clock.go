package sys

import "time"

// NewClock returns the system's clock. Its monotonic time starts near 0, so 0
// can serve callers as "never".
func NewClock() Clock {
	return systemClock{start: time.Now().Add(-time.Second)}
}

type systemClock struct{ start time.Time }

func (c systemClock) Now() int64      { return int64(time.Since(c.start)) }
func (c systemClock) Wall() time.Time { return time.Now() }
