package poll

import (
	"time"

	"golang.org/x/sys/unix"
)

// parkedWait lets the loop's goroutine park in the Go runtime's poller, which
// watches the epoll descriptor like a socket.
type parkedWait struct {
	*parker
	ready func(uintptr) bool // made once: a function value per wait would be an allocation
}

func newParkedEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	k, err := newParker(fd, "epoll")
	if err != nil {
		return nil, err
	}
	p := &epoll{fd: fd}
	p.wait = &parkedWait{parker: k, ready: func(uintptr) bool {
		p.collect()
		return p.n != 0 || p.errno != 0
	}}
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
	return w.park(w.ready)
}
