package executor

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRejected is the answer of a full queue. The work was not taken and may be submitted again later. Test with
	// errors.Is, because the error itself is a *LimitError, or names the fault when a lane's spill queue refused the
	// work.
	ErrRejected = errors.New("executor: rejected")

	// ErrClosed is the answer of an executor that takes no more work.
	ErrClosed = errors.New("executor: closed")

	// ErrWait is the answer of Lanes.Submit while a lane's spill queue waits for its disk. Only a producer with
	// LanesOptions.Room set gets this error. The work was not taken.
	ErrWait = errors.New("executor: the lane waits for its disk")

	// ErrOnWorker is the answer to a task that tries to wait for the end of its own pool.
	ErrOnWorker = errors.New("executor: a task of a pool cannot wait for the end of that pool")
)

// LimitError is an ErrRejected that names the limit. Its text is built only when asked for, because rejection is the
// path taken under overload.
type LimitError struct {
	Pool  string // name of the pool or lane
	What  string // what reached its limit
	Limit int
	Key   bool // the limit is that of one strand, key or owner; the pool may have room for others

	RetryAfter time.Duration // when there may be room, as an adaptive pool sees it; 0 = unknown
}

// Error names the pool, what was at its limit, and the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("executor: rejected by pool %q: %s is at its limit of %d", e.Pool, e.What, e.Limit)
}

// Unwrap returns ErrRejected.
func (e *LimitError) Unwrap() error { return ErrRejected }
