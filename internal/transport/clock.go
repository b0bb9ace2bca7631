package transport

import (
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// Clock is since when something runs, or until when something must be over: one time, whose sign says which. Zero is
// neither. Times are monotonic ns above 0.
type Clock int64

// Since returns the Clock of what runs since t.
func Since(t int64) Clock { return Clock(t) }

// Until returns the Clock of what must be over at t.
func Until(t int64) Clock { return Clock(-t) }

// Since returns since when something runs, 0 if nothing does.
func (c Clock) Since() int64 { return int64(max(c, 0)) }

// Until returns when something must be over, 0 if nothing must.
func (c Clock) Until() int64 { return -int64(min(c, 0)) }

// Earlier returns the earlier of two times, of which 0 is none.
func Earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Due returns when a limit that runs since then is reached, 0 if it does not run.
func Due(since int64, limit time.Duration) int64 {
	if since == 0 || limit == 0 {
		return 0
	}
	return wheel.After(since, limit)
}
