package poll

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// epoll is level-triggered and keeps no table of its own: the kernel holds the
// tokens.
type epoll struct {
	fd     int               // -1 after Close
	events []unix.EpollEvent // scratch of Wait
	wait   epollWaiter

	// What the last collect found.
	n     int
	errno syscall.Errno
}

// epollWaiter is the way an epoll sleeps and is woken.
type epollWaiter interface {
	// sleep collects events, waiting for them for at most timeout, which is not 0.
	sleep(p *epoll, timeout time.Duration) error
	// settle ends a Wait that did not sleep: wake-ups so far are answered.
	settle()
	wake() error
	close() error
}

func newEpoll(mode Mode) (sys.Poller, error) {
	if mode == Parked {
		p, err := newParkedEpoll()
		if err == nil {
			return p, nil
		}
		// Without a runtime that can poll an epoll, block.
	}
	return newBlockingEpoll()
}

func (p *epoll) Name() string { return "epoll" }

func (p *epoll) Add(fd int, in sys.Interest, token uint64) error {
	return p.control(unix.EPOLL_CTL_ADD, "add", fd, in, token)
}

func (p *epoll) Modify(fd int, in sys.Interest, token uint64) error {
	return p.control(unix.EPOLL_CTL_MOD, "modify", fd, in, token)
}

func (p *epoll) Remove(fd int) error {
	return p.ctl(unix.EPOLL_CTL_DEL, "remove", fd, nil)
}

func (p *epoll) control(op int, verb string, fd int, in sys.Interest, token uint64) error {
	if token == sys.ReservedToken {
		return errReserved(verb, fd)
	}
	event := unix.EpollEvent{Events: epollEvents(in), Fd: int32(token), Pad: int32(token >> 32)}
	return p.ctl(op, verb, fd, &event)
}

func (p *epoll) ctl(op int, verb string, fd int, event *unix.EpollEvent) error {
	if p.fd < 0 {
		return sys.ErrPollerClosed
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(event)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("poll: epoll %s descriptor %d: %w", verb, fd, errno)
	}
	return nil
}

// epollEvents translates interest. The kernel always reports EPOLLHUP and
// EPOLLERR. EPOLLONESHOT limits that to one report, so that a loop does not
// spin on a dead connection that is paused.
func epollEvents(in sys.Interest) uint32 {
	if in == sys.None {
		return unix.EPOLLONESHOT
	}
	var e uint32
	if in&sys.Read != 0 {
		e |= unix.EPOLLIN
	}
	if in&sys.Write != 0 {
		e |= unix.EPOLLOUT
	}
	return e
}

func epollReady(e uint32) sys.Ready {
	var r sys.Ready
	if e&unix.EPOLLIN != 0 {
		r |= sys.Readable
	}
	if e&unix.EPOLLOUT != 0 {
		r |= sys.Writable
	}
	if e&unix.EPOLLHUP != 0 {
		r |= sys.Hangup
	}
	if e&unix.EPOLLERR != 0 {
		r |= sys.Failed
	}
	return r
}

func (p *epoll) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.fd < 0 {
		return 0, sys.ErrPollerClosed
	}
	if len(events) == 0 {
		return 0, errNoRoom
	}
	if len(p.events) != len(events) {
		p.resize(len(events))
	}
	if timeout == 0 {
		p.collect()
		p.wait.settle()
	} else if err := p.wait.sleep(p, timeout); err != nil {
		return 0, err
	}
	if p.errno != 0 {
		return 0, p.failure()
	}
	return p.translate(events), nil
}

func (p *epoll) resize(n int) {
	if n > cap(p.events) {
		p.events = make([]unix.EpollEvent, n)
	}
	p.events = p.events[:n]
}

// collect asks for events without waiting. The call is raw, because it never
// blocks.
func (p *epoll) collect() {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	p.result(int(n), errno)
}

func (p *epoll) result(n int, errno syscall.Errno) {
	switch errno {
	case 0:
		p.n, p.errno = n, 0
	case syscall.EINTR:
		p.n, p.errno = 0, 0
	default:
		p.n, p.errno = 0, errno
	}
}

func (p *epoll) failure() error {
	return fmt.Errorf("poll: epoll wait: %w", p.errno)
}

func (p *epoll) translate(events []sys.Event) int {
	n := 0
	for i := range p.events[:p.n] {
		e := &p.events[i]
		token := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
		if token == sys.ReservedToken {
			continue // the wake-up descriptor
		}
		events[n] = sys.Event{Token: token, Ready: epollReady(e.Events)}
		n++
	}
	return n
}

func (p *epoll) Wake() error { return p.wait.wake() }

func (p *epoll) Close() error {
	p.fd = -1
	return p.wait.close()
}
