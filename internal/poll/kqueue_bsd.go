//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// kqueue is level-triggered (no EV_CLEAR) and holds one kernel filter for each
// condition that is asked for. Under sys.None there is none, and the kernel
// reports nothing; see quiet.
//
// It blocks in both modes. The Go runtime cannot poll a kqueue, because it asks
// for EVFILT_WRITE of whatever it polls, which a kqueue does not have.
type kqueue struct {
	fd      int // -1 after Close
	waker   *pipeWaker
	quiet   quiet
	regs    map[int]kqueueReg // by descriptor: a token does not fit into every system's udata
	events  []unix.Kevent_t   // scratch of Wait
	changes [2]unix.Kevent_t  // scratch of change
}

type kqueueReg struct {
	token uint64
	in    sys.Interest
}

func newKqueue(Mode) (sys.Poller, error) {
	fd, err := openKqueue()
	if err != nil {
		return nil, err
	}
	w, err := newPipeWaker()
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	p := &kqueue{fd: fd, waker: w, regs: make(map[int]kqueueReg)}
	if err := p.change(w.r, sys.None, sys.Read); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// openKqueue opens a kqueue that children do not inherit.
func openKqueue() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Kqueue()
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

func (p *kqueue) Name() string { return "kqueue" }

func (p *kqueue) Add(fd int, in sys.Interest, token uint64) error {
	if err := p.check("add", fd, token); err != nil {
		return err
	}
	if _, ok := p.regs[fd]; ok {
		return fmt.Errorf("poll: kqueue add descriptor %d: %w", fd, syscall.EEXIST)
	}
	if err := p.change(fd, sys.None, in); err != nil {
		return fmt.Errorf("poll: kqueue add descriptor %d: %w", fd, err)
	}
	p.regs[fd] = kqueueReg{token: token, in: in}
	p.quiet.watch(fd, in)
	return nil
}

func (p *kqueue) Modify(fd int, in sys.Interest, token uint64) error {
	if err := p.check("modify", fd, token); err != nil {
		return err
	}
	reg, ok := p.regs[fd]
	if !ok {
		return fmt.Errorf("poll: kqueue modify descriptor %d: %w", fd, syscall.ENOENT)
	}
	if err := p.change(fd, reg.in, in); err != nil {
		return fmt.Errorf("poll: kqueue modify descriptor %d: %w", fd, err)
	}
	p.regs[fd] = kqueueReg{token: token, in: in}
	p.quiet.watch(fd, in)
	return nil
}

func (p *kqueue) Remove(fd int) error {
	if err := p.check("remove", fd, 0); err != nil {
		return err
	}
	reg, ok := p.regs[fd]
	if !ok {
		return fmt.Errorf("poll: kqueue remove descriptor %d: %w", fd, syscall.ENOENT)
	}
	delete(p.regs, fd)
	p.quiet.drop(fd)
	if err := p.change(fd, reg.in, sys.None); err != nil {
		return fmt.Errorf("poll: kqueue remove descriptor %d: %w", fd, err)
	}
	return nil
}

// check refuses invalid tokens and descriptors, and every call after Close.
func (p *kqueue) check(verb string, fd int, token uint64) error {
	switch {
	case p.fd < 0:
		return sys.ErrPollerClosed
	case token == sys.ReservedToken:
		return errReserved(verb, fd)
	case fd < 0:
		return fmt.Errorf("poll: kqueue %s descriptor %d: %w", verb, fd, syscall.EBADF)
	}
	return nil
}

// change adds and deletes kernel filters to get from one interest to another.
func (p *kqueue) change(fd int, from, to sys.Interest) error {
	n := 0
	for _, f := range [...]struct {
		in   sys.Interest
		kind int
	}{{sys.Read, unix.EVFILT_READ}, {sys.Write, unix.EVFILT_WRITE}} {
		switch {
		case to&f.in != 0 && from&f.in == 0:
			unix.SetKevent(&p.changes[n], fd, f.kind, unix.EV_ADD)
			n++
		case to&f.in == 0 && from&f.in != 0:
			unix.SetKevent(&p.changes[n], fd, f.kind, unix.EV_DELETE)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	_, err := unix.Kevent(p.fd, p.changes[:n], nil, nil)
	if err == unix.EINTR { // the changes were made before the signal was noticed
		return nil
	}
	return err
}

func (p *kqueue) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.fd < 0 {
		return 0, sys.ErrPollerClosed
	}
	if len(events) == 0 {
		return 0, errNoRoom
	}
	if cap(p.events) < len(events) {
		p.events = make([]unix.Kevent_t, len(events))
	}
	p.events = p.events[:len(events)]
	return p.quiet.wait(events, timeout, p.once, p.token)
}

func (p *kqueue) token(fd int) uint64 { return p.regs[fd].token }

func (p *kqueue) once(events []sys.Event, timeout time.Duration) (n int, woken bool, err error) {
	if p.waker.woken.pending() {
		timeout = 0
	}
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err = unix.Kevent(p.fd, nil, p.events, limit)
	woken = p.waker.woken.settle()
	if err == unix.EINTR {
		return 0, woken, nil
	}
	if err != nil {
		return 0, woken, fmt.Errorf("poll: kqueue wait: %w", err)
	}
	return p.translate(events, n), woken, nil
}

func (p *kqueue) translate(events []sys.Event, found int) int {
	n := 0
	for i := range p.events[:found] {
		e := &p.events[i]
		fd := int(e.Ident)
		if fd == p.waker.r {
			p.waker.drain()
			continue
		}
		events[n] = sys.Event{Token: p.regs[fd].token, Ready: kqueueReady(e)}
		n++
	}
	return n
}

// kqueueReady translates one filter's report. At end of file fflags is the
// socket's error, if there is one.
func kqueueReady(e *unix.Kevent_t) sys.Ready {
	r := sys.Writable
	if e.Filter == unix.EVFILT_READ {
		r = sys.Readable
	}
	if e.Flags&unix.EV_EOF != 0 && e.Fflags != 0 {
		r |= sys.Failed
	}
	return r
}

func (p *kqueue) Wake() error { return p.waker.wake() }

func (p *kqueue) Close() error {
	if err := p.waker.close(); err != nil {
		return err
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}
