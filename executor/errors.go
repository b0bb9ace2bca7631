package executor

import (
	"errors"
	"fmt"
)

var (
	// ErrRejected is the answer of a full queue. The work was not taken and may be
	// submitted again later. Test with errors.Is: the error itself is a *LimitError.
	ErrRejected = errors.New("executor: rejected")

	// ErrClosed is the answer of an executor that takes no more work.
	ErrClosed = errors.New("executor: closed")

	// ErrWait is the answer of a lane whose spill queue waits for its disk, to a producer that has said that it can wait:
	// LanesOptions.Room. The work was not taken.
	ErrWait = errors.New("executor: the lane waits for its disk")

	// ErrOnWorker is the answer to a task that waits for the end of the pool that runs it.
	ErrOnWorker = errors.New("executor: a task of a pool cannot wait for the end of that pool")
)

// LimitError is an ErrRejected that names the limit. Its text is made only when asked
// for: rejection is the path taken under overload.
type LimitError struct {
	Pool  string // its name; that of the lane for lanes
	What  string // what was at its limit
	Limit int
	Key   bool // it is the limit of one strand or key: the pool may have room for others
}

// Error names the pool, what was at its limit, and the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("executor: rejected by pool %q: %s is at its limit of %d", e.Pool, e.What, e.Limit)
}

// Unwrap returns ErrRejected.
func (e *LimitError) Unwrap() error { return ErrRejected }
