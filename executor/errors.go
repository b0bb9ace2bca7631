package executor

import (
	"errors"
	"fmt"
)

var (
	// ErrRejected is the answer of a full queue. The work was not taken and may be
	// submitted again later. Test with errors.Is: the error itself names the limit.
	ErrRejected = errors.New("executor: rejected")

	// ErrClosed is the answer of an executor that takes no more work.
	ErrClosed = errors.New("executor: closed")
)

// limitError is an ErrRejected that names the limit. Its text is made only when asked
// for: rejection is the path taken under overload.
type limitError struct {
	pool  string
	what  string
	limit int
}

func (e *limitError) Error() string {
	return fmt.Sprintf("executor: rejected by pool %q: %s is at its limit of %d", e.pool, e.what, e.limit)
}

func (e *limitError) Unwrap() error { return ErrRejected }
