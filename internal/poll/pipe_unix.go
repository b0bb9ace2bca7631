//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// pipeWaker wakes a poller that watches the reading end of a pipe. At most one
// byte is in the pipe for each wait.
type pipeWaker struct {
	woken atomic.Bool // a wake-up that no Wait has answered yet
	r     int         // watched by the poller

	mu     sync.Mutex // keeps close from pulling w from under a wake
	closed bool
	w      int
}

func newPipeWaker() (*pipeWaker, error) {
	var fds [2]int
	if err := pipe(&fds); err != nil {
		return nil, err
	}
	return &pipeWaker{r: fds[0], w: fds[1]}, nil
}

// pipe opens a non-blocking pipe that children do not inherit.
func pipe(fds *[2]int) error {
	syscall.ForkLock.RLock() // not every system has pipe2
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
			return err
		}
	}
	return nil
}

// pending reports whether a wake-up is waiting for the end of a wait.
func (p *pipeWaker) pending() bool { return p.woken.Load() }

// settle ends a wait: wake-ups so far are answered by its return.
func (p *pipeWaker) settle() {
	if p.woken.Load() {
		p.woken.Store(false)
	}
}

// drain empties the pipe after the poller found it readable.
func (p *pipeWaker) drain() {
	var b [64]byte
	for {
		n, err := unix.Read(p.r, b[:])
		if err != unix.EINTR && (err != nil || n < len(b)) {
			return
		}
	}
}

// wake makes the pipe readable. Any goroutine.
func (p *pipeWaker) wake() error {
	if p.woken.Swap(true) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return sys.ErrPollerClosed
	}
	for {
		_, err := unix.Write(p.w, []byte{1})
		switch err {
		case unix.EINTR:
		case unix.EAGAIN: // full, hence readable
			return nil
		default:
			return err
		}
	}
}

func (p *pipeWaker) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return sys.ErrPollerClosed
	}
	p.closed = true
	unix.Close(p.w)
	return unix.Close(p.r)
}
