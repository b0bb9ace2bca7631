package ring

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a Blocker. In both cases the message was not published.
var (
	// ErrMayNotWait means that the ring is full and the goroutine may not wait for room.
	ErrMayNotWait = errors.New("ring: full, and this goroutine may not wait")
	// ErrNoRoom means that there was no room within the timeout.
	ErrNoRoom = errors.New("ring: full for all of the timeout")
)

// Blocker lets a producer wait for room in a full ring. Waiting is never the default, because everything else that the
// goroutine would do waits too. An event loop must not use a Blocker, so its function may must say no there.
// docs/lanes.md has the price of each Waiter.
//
// A Blocker belongs to one goroutine, as its Waiter does.
type Blocker struct {
	may     func() bool
	wait    Waiter
	timeout time.Duration
}

// NewBlocker makes a Blocker that waits for at most timeout, which must be above 0, in the way of wait. may says whether
// the calling goroutine may wait, and is asked only when there is something to wait for. All three are required.
func NewBlocker(may func() bool, wait Waiter, timeout time.Duration) (*Blocker, error) {
	if may == nil || wait == nil {
		return nil, errors.New("ring: a Blocker needs a function that says who may wait, and a Waiter")
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("ring: the timeout of a Blocker is %v, not above 0", timeout)
	}
	return &Blocker{may: may, wait: wait, timeout: timeout}, nil
}

// Until calls try until it reports true, and then returns nil. Until returns ErrMayNotWait when try reported false and
// the goroutine may not wait, and ErrNoRoom after the timeout. Until blocks.
func (b *Blocker) Until(try func() bool) error {
	if try() {
		return nil
	}
	if !b.may() {
		return ErrMayNotWait
	}
	defer b.wait.Reset()
	for end := time.Now().Add(b.timeout); ; {
		b.wait.Wait()
		if try() {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("%w, %v", ErrNoRoom, b.timeout)
		}
	}
}

// Sender is a ring that one message at a time can be sent to: SPSC, MPSC, Shared and Broadcast.
type Sender[T any] interface {
	Send(v T) bool
}

// SendBlocking is q.Send, but waits for room as b says. Errors are those of Blocker.Until.
func SendBlocking[T any](b *Blocker, q Sender[T], v T) error {
	if q.Send(v) { // the usual case, without a closure
		return nil
	}
	return b.Until(func() bool { return q.Send(v) })
}
