package poll

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Values of parker.armed that are not moments.
const (
	spent = math.MinInt64 // the deadline has ended a park: every further one fails at once
	never = math.MaxInt64 // no deadline
)

// parker parks the goroutine of a loop in the Go runtime's poller until a
// descriptor, itself a poller, has something to report.
//
// wake uses the descriptor's read deadline. Setting it into the past makes the
// runtime put the parked goroutine on the caller's run queue at once. That
// needs no system call and no thread that asks the kernel. BenchmarkWake
// compares it with an eventfd.
//
// The owner also sets the deadline, for its timeouts, and must not wipe out a
// wake-up by doing so. So a waker first raises woken, then sets the deadline,
// while the owner first sets the deadline, then looks at woken. Either the
// waker sets its deadline last, and that stands, or the owner sees the mark and
// does not park.
type parker struct {
	file  *os.File // owns the descriptor
	conn  syscall.RawConn
	start time.Time
	past  time.Time
	woken signal

	// armed is the deadline that the owner set last, in nanoseconds since
	// start. It is moved only when it must come earlier or has passed. A later
	// timeout leaves it, at the price of one early return.
	armed int64
}

// newParker takes over fd. If the runtime cannot poll fd, it closes fd and
// fails.
func newParker(fd int, name string) (*parker, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	// Descriptors that the runtime cannot poll have no deadlines.
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		file.Close()
		return nil, err
	}
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &parker{file: file, conn: conn, start: time.Now(), past: time.Unix(1, 0), armed: never}, nil
}

// settle ends a wait, which answers the wake-ups so far.
func (k *parker) settle() {
	if k.woken.settle() {
		k.armed = spent
	}
}

// until returns the moment at which a wait with this timeout ends.
func (k *parker) until(timeout time.Duration) int64 {
	if timeout < 0 {
		return never
	}
	now := int64(time.Since(k.start))
	if int64(timeout) > never-1-now {
		return never
	}
	return now + int64(timeout)
}

// suits reports whether the armed deadline can serve a wait until end.
func (k *parker) suits(end int64) bool {
	if k.armed == never {
		return end == never
	}
	return k.armed <= end && k.armed > int64(time.Since(k.start))
}

// arm sets the deadline for a wait until end.
func (k *parker) arm(end int64) error {
	var t time.Time
	if end != never {
		t = k.start.Add(time.Duration(end))
	}
	k.armed = end
	return k.closed(k.file.SetReadDeadline(t))
}

// park waits until ready returns true, a deadline passes or wake is called.
// ready is called before the first sleep and after each.
func (k *parker) park(ready func(uintptr) bool) error {
	err := k.conn.Read(ready)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		k.armed = spent
		return nil
	}
	return k.closed(err)
}

// wake ends the current or the next park. Any goroutine.
func (k *parker) wake() error {
	if first, err := k.woken.raise(); !first {
		return err
	}
	return k.closed(k.file.SetReadDeadline(k.past))
}

// close closes the descriptor once every wake under way has left it.
func (k *parker) close() error {
	if !k.woken.shut() {
		return sys.ErrPollerClosed
	}
	return k.file.Close()
}

// closed replaces the various errors of a closed file.
func (k *parker) closed(err error) error {
	if err != nil && k.woken.closed() {
		return sys.ErrPollerClosed
	}
	return err
}
