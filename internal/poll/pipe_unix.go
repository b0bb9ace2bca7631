//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// pipeWaker wakes a poller that watches the reading end of a pipe. At most one
// byte is in the pipe for each wait.
type pipeWaker struct {
	woken signal
	r     int      // watched by the poller
	in    [64]byte // scratch of drain

	mu  sync.Mutex // keeps close from pulling w from under a wake
	w   int
	out [1]byte // what wake writes
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

// drain empties the pipe after the poller found it readable.
func (p *pipeWaker) drain() {
	for {
		n, err := unix.Read(p.r, p.in[:])
		if err != unix.EINTR && (err != nil || n < len(p.in)) {
			return
		}
	}
}

// wake makes the pipe readable. Any goroutine.
func (p *pipeWaker) wake() error {
	if first, err := p.woken.raise(); !first {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.woken.closed() {
		return sys.ErrPollerClosed
	}
	for {
		_, err := unix.Write(p.w, p.out[:])
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
	if !p.woken.shut() {
		return sys.ErrPollerClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.w)
	return unix.Close(p.r)
}
