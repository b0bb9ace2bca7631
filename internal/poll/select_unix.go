//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// selectLimit is how many descriptors fit into the kernel's sets: 1024, on
// NetBSD 256. It bounds the numbers of the descriptors, not how many are in
// use.
const selectLimit = int(unsafe.Sizeof(unix.FdSet{})) * 8

// selecter is select(2). It takes only descriptors below selectLimit, and each
// Wait costs time in proportion to the highest one. It blocks in both modes.
// Errors and the end of a connection are reported as Readable or Writable,
// whichever is asked for; the next call returns them.
type selecter struct {
	waker  *pipeWaker
	closed bool
	quiet  quiet
	regs   [selectLimit]selectReg
	end    int           // one more than the highest descriptor
	next   int           // where the last Wait stopped looking
	wanted [2]unix.FdSet // what is asked for: to read, to write
	found  [2]unix.FdSet // scratch of Wait
}

type selectReg struct {
	token uint64
	known bool
}

func newSelect(Mode) (sys.Poller, error) {
	w, err := newPipeWaker()
	if err != nil {
		return nil, err
	}
	if w.r >= selectLimit {
		w.close()
		return nil, fmt.Errorf("the wake-up pipe: %w", errBeyondSelect(w.r))
	}
	p := &selecter{waker: w, end: w.r + 1}
	p.wanted[0].Set(w.r)
	return p, nil
}

func errBeyondSelect(fd int) error {
	return fmt.Errorf("descriptor %d: select(2) takes only those below %d", fd, selectLimit)
}

func (p *selecter) Name() string { return "select" }

func (p *selecter) Add(fd int, in sys.Interest, token uint64) error {
	if err := p.check("add", fd, token); err != nil {
		return err
	}
	if fd >= selectLimit {
		return fmt.Errorf("poll: add %w", errBeyondSelect(fd))
	}
	if p.regs[fd].known {
		return fmt.Errorf("poll: add descriptor %d: %w", fd, syscall.EEXIST)
	}
	p.regs[fd] = selectReg{token: token, known: true}
	p.want(fd, in)
	p.end = max(p.end, fd+1)
	return nil
}

func (p *selecter) Modify(fd int, in sys.Interest, token uint64) error {
	if err := p.check("modify", fd, token); err != nil {
		return err
	}
	if fd >= selectLimit || !p.regs[fd].known {
		return fmt.Errorf("poll: modify descriptor %d: %w", fd, syscall.ENOENT)
	}
	p.regs[fd].token = token
	p.want(fd, in)
	return nil
}

func (p *selecter) Remove(fd int) error {
	if err := p.check("remove", fd, 0); err != nil {
		return err
	}
	if fd >= selectLimit || !p.regs[fd].known {
		return fmt.Errorf("poll: remove descriptor %d: %w", fd, syscall.ENOENT)
	}
	p.regs[fd] = selectReg{}
	p.want(fd, sys.None)
	p.quiet.drop(fd)
	for p.end > p.waker.r+1 && !p.regs[p.end-1].known {
		p.end--
	}
	return nil
}

// check refuses invalid tokens and descriptors, and every call after Close.
func (p *selecter) check(verb string, fd int, token uint64) error {
	switch {
	case p.closed:
		return sys.ErrPollerClosed
	case token == sys.ReservedToken:
		return errReserved(verb, fd)
	case fd < 0:
		return fmt.Errorf("poll: %s descriptor %d: %w", verb, fd, syscall.EBADF)
	}
	return nil
}

func (p *selecter) want(fd int, in sys.Interest) {
	for i, bit := range [...]sys.Interest{sys.Read, sys.Write} {
		if in&bit != 0 {
			p.wanted[i].Set(fd)
		} else {
			p.wanted[i].Clear(fd)
		}
	}
	p.quiet.watch(fd, in)
}

func (p *selecter) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.closed {
		return 0, sys.ErrPollerClosed
	}
	if len(events) == 0 {
		return 0, errNoRoom
	}
	return p.quiet.wait(events, timeout, p.once, p.token)
}

func (p *selecter) token(fd int) uint64 { return p.regs[fd].token }

func (p *selecter) once(events []sys.Event, timeout time.Duration) (n int, woken bool, err error) {
	if p.waker.woken.pending() {
		timeout = 0
	}
	p.found = p.wanted
	ready, err := unix.Select(p.end, &p.found[0], &p.found[1], nil, selectTimeout(timeout))
	woken = p.waker.woken.settle()
	if err != nil && err != unix.EINTR {
		return 0, woken, fmt.Errorf("poll: select below descriptor %d: %w", p.end, err)
	}
	if err != nil || ready == 0 {
		return 0, woken, nil
	}
	if p.found[0].IsSet(p.waker.r) {
		p.waker.drain()
		p.found[0].Clear(p.waker.r)
		ready--
	}
	return p.gather(events, ready), woken, nil
}

// selectTimeout converts a timeout to microseconds, rounded up. Longer ones are
// cut to what every system takes.
func selectTimeout(timeout time.Duration) *unix.Timeval {
	const longest = 1 << 24 * time.Second
	if timeout < 0 {
		return nil
	}
	tv := unix.NsecToTimeval(int64(min(timeout, longest))) // rounds up itself
	return &tv
}

// gather copies what is ready, which is that many bits of found. It begins
// where it stopped before, so that high descriptors have their turn when events
// is short.
func (p *selecter) gather(events []sys.Event, ready int) int {
	n := 0
	for range p.end {
		if ready == 0 || n == len(events) {
			break
		}
		if p.next >= p.end {
			p.next = 0
		}
		var r sys.Ready
		if p.found[0].IsSet(p.next) {
			r |= sys.Readable
			ready--
		}
		if p.found[1].IsSet(p.next) {
			r |= sys.Writable
			ready--
		}
		if r != 0 {
			events[n] = sys.Event{Token: p.regs[p.next].token, Ready: r}
			n++
		}
		p.next++
	}
	return n
}

func (p *selecter) Wake() error { return p.waker.wake() }

func (p *selecter) Close() error {
	p.closed = true
	return p.waker.close()
}
