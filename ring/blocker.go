package ring

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a Blocker. In both cases the message was not published.
var (
	// ErrMayNotWait: the ring is full and the goroutine may not wait for room.
	ErrMayNotWait = errors.New("ring: full, and this goroutine may not wait")
	// ErrNoRoom: there was no room within the timeout.
	ErrNoRoom = errors.New("ring: full for all of the timeout")
)

// Blocker lets a producer wait for room in a full ring: the first of the three answers to a full ring of reference 3.5,
// which has to be asked for. All that its goroutine would do meanwhile waits, too, so an event loop must not use one; may
// says no there. docs/lanes.md has the price of each Waiter.
//
// A Blocker belongs to one goroutine, as its Waiter does.
type Blocker struct {
	may     func() bool
	wait    Waiter
	timeout time.Duration
}

// NewBlocker makes a Blocker that waits for at most timeout, which must be above 0, in the way of wait. may is asked, only
// when there is something to wait for, whether the calling goroutine may wait. All three are required.
func NewBlocker(may func() bool, wait Waiter, timeout time.Duration) (*Blocker, error) {
	if may == nil || wait == nil {
		return nil, errors.New("ring: a Blocker needs a function that says who may wait, and a Waiter")
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("ring: the timeout of a Blocker is %v, not above 0", timeout)
	}
	return &Blocker{may: may, wait: wait, timeout: timeout}, nil
}

// Until calls try until it reports true. It returns nil then, ErrMayNotWait when try reported false and the goroutine may
// not wait, and ErrNoRoom after the timeout. It blocks.
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
	if q.Send(v) { // mostly; and without a closure
		return nil
	}
	return b.Until(func() bool { return q.Send(v) })
}
