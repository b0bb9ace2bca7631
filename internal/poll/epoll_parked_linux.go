package poll

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// parkedWait lets the loop's goroutine park in the Go runtime's poller, which
// watches the epoll descriptor, or the gate before it, like a socket.
type parkedWait struct {
	*parker
	gate  *gate              // nil on one processor
	ready func(uintptr) bool // made once: a function value per wait would be an allocation
}

// newParkedEpoll adds a gate if there are several processors. When their number
// changes later, only the costs change.
func newParkedEpoll() (*epoll, error) { return newGatedEpoll(runtime.GOMAXPROCS(0) > 1) }

func newGatedEpoll(gated bool) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &epoll{fd: fd}
	w := &parkedWait{}
	watched := fd
	if gated {
		if w.gate, err = newGate(fd); err != nil {
			unix.Close(fd)
			return nil, err
		}
		watched = w.gate.fd
	}
	if w.parker, err = newParker(watched, "epoll"); err != nil {
		if gated {
			unix.Close(fd)
		}
		return nil, err
	}
	w.ready = func(uintptr) bool {
		p.collect()
		if p.n == 0 && p.errno == 0 && w.gate != nil {
			p.errno = w.gate.lift()
		}
		return p.n != 0 || p.errno != 0
	}
	p.wait = w
	return p, nil
}

func (w *parkedWait) sleep(p *epoll, timeout time.Duration) error {
	defer w.settle()
	p.result(0, 0)
	if end := w.until(timeout); !w.suits(end) {
		// Moving the deadline costs more than looking whether it is needed.
		if p.collect(); p.n != 0 || p.errno != 0 {
			return nil
		}
		if err := w.arm(end); err != nil {
			return err
		}
	}
	if w.woken.pending() {
		return nil
	}
	err := w.park(w.ready)
	if w.gate != nil && err == nil {
		if errno := w.gate.shut(p.n > 0); errno != 0 {
			p.errno = errno
		}
	}
	return err
}

// close closes the parker, which owns the descriptor that the runtime watches,
// and the epoll behind the gate.
func (w *parkedWait) close() error {
	err := w.parker.close()
	if w.gate != nil && err != sys.ErrPollerClosed { //nolint:errorlint // our own sentinel, returned bare
		unix.Close(w.gate.inner)
	}
	return err
}
