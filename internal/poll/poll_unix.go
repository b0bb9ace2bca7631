//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// poller is poll(2). It works everywhere, and each Wait costs time in
// proportion to the number of registered descriptors. It blocks in both modes.
type poller struct {
	waker *pipeWaker
	fds   []unix.PollFd // dense; the waker is the first
	regs  []pollReg     // parallel to fds
	index map[int]int   // descriptor → place in fds
	next  int           // where the last Wait stopped looking; 0 after Close
}

type pollReg struct {
	token uint64
	fd    int
}

func newPoll(Mode) (sys.Poller, error) {
	w, err := newPipeWaker()
	if err != nil {
		return nil, err
	}
	return &poller{
		waker: w,
		fds:   []unix.PollFd{{Fd: int32(w.r), Events: unix.POLLIN}},
		regs:  []pollReg{{token: sys.ReservedToken, fd: w.r}},
		index: make(map[int]int),
		next:  1,
	}, nil
}

func (p *poller) Name() string { return "poll" }

func (p *poller) Add(fd int, in sys.Interest, token uint64) error {
	if err := p.check("add", fd, token); err != nil {
		return err
	}
	if _, ok := p.index[fd]; ok {
		return fmt.Errorf("poll: add descriptor %d: %w", fd, syscall.EEXIST)
	}
	p.index[fd] = len(p.fds)
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: pollEvents(in)})
	p.regs = append(p.regs, pollReg{token: token, fd: fd})
	return nil
}

func (p *poller) Modify(fd int, in sys.Interest, token uint64) error {
	if err := p.check("modify", fd, token); err != nil {
		return err
	}
	i, ok := p.index[fd]
	if !ok {
		return fmt.Errorf("poll: modify descriptor %d: %w", fd, syscall.ENOENT)
	}
	p.fds[i] = unix.PollFd{Fd: int32(fd), Events: pollEvents(in)}
	p.regs[i].token = token
	return nil
}

func (p *poller) Remove(fd int) error {
	if err := p.check("remove", fd, 0); err != nil {
		return err
	}
	i, ok := p.index[fd]
	if !ok {
		return fmt.Errorf("poll: remove descriptor %d: %w", fd, syscall.ENOENT)
	}
	last := len(p.fds) - 1
	p.fds[i], p.regs[i] = p.fds[last], p.regs[last]
	p.index[p.regs[i].fd] = i
	delete(p.index, fd)
	p.fds, p.regs = p.fds[:last], p.regs[:last]
	return nil
}

// check refuses invalid tokens and descriptors, and every call after Close.
func (p *poller) check(verb string, fd int, token uint64) error {
	switch {
	case p.next == 0:
		return sys.ErrPollerClosed
	case token == sys.ReservedToken:
		return errReserved(verb, fd)
	case fd < 0:
		return fmt.Errorf("poll: %s descriptor %d: %w", verb, fd, syscall.EBADF)
	}
	return nil
}

func pollEvents(in sys.Interest) int16 {
	var e int16
	if in&sys.Read != 0 {
		e |= unix.POLLIN
	}
	if in&sys.Write != 0 {
		e |= unix.POLLOUT
	}
	return e
}

func pollReady(e int16) sys.Ready {
	var r sys.Ready
	if e&unix.POLLIN != 0 {
		r |= sys.Readable
	}
	if e&unix.POLLOUT != 0 {
		r |= sys.Writable
	}
	if e&unix.POLLHUP != 0 {
		r |= sys.Hangup
	}
	if e&(unix.POLLERR|unix.POLLNVAL) != 0 {
		r |= sys.Failed
	}
	return r
}

func (p *poller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.next == 0 {
		return 0, sys.ErrPollerClosed
	}
	if len(events) == 0 {
		return 0, errNoRoom
	}
	if p.waker.woken.pending() {
		timeout = 0
	}
	ready, err := unix.Poll(p.fds, milliseconds(timeout))
	p.waker.woken.settle()
	if err != nil && err != unix.EINTR {
		return 0, fmt.Errorf("poll: poll %d descriptors: %w", len(p.fds), err)
	}
	if err != nil || ready == 0 {
		return 0, nil
	}
	if p.fds[0].Revents != 0 {
		p.waker.drain()
		ready--
	}
	return p.gather(events, ready), nil
}

// gather copies what is ready. It begins where it stopped before, so that
// descriptors late in the array have their turn when events is short.
func (p *poller) gather(events []sys.Event, ready int) int {
	n := 0
	for range len(p.fds) - 1 {
		if ready == 0 || n == len(events) {
			break
		}
		if p.next >= len(p.fds) {
			p.next = 1
		}
		f := &p.fds[p.next]
		if f.Revents != 0 {
			events[n] = sys.Event{Token: p.regs[p.next].token, Ready: pollReady(f.Revents)}
			n++
			ready--
			if f.Events == 0 {
				f.Fd = ^f.Fd // without interest an error is reported once; poll(2) skips a negative descriptor
			}
		}
		p.next++
	}
	return n
}

func (p *poller) Wake() error { return p.waker.wake() }

func (p *poller) Close() error {
	p.next = 0
	return p.waker.close()
}
