package netsys

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// poller reports the nodes that are registered with it. A change of a node puts its registration on the list, once.
// Wait checks what is on the list and leaves there what still holds, which makes it level-triggered.
type poller struct {
	sys   *System
	list  []*registration // used by Wait only
	again []*registration // scratch of collect
	timer *time.Timer
	shut  atomic.Bool

	mu      sync.Mutex
	fresh   []*registration // put on the list since the last Wait
	woken   bool
	bell    chan struct{} // holds a token after fresh or woken was set
	leaving int           // closed connections that still send what was taken
	left    chan struct{} // made by Close, closed when leaving is 0
}

func newPoller(s *System) *poller {
	p := &poller{sys: s, timer: time.NewTimer(time.Hour), bell: make(chan struct{}, 1)}
	p.timer.Stop()
	return p
}

var errNoRoom = errors.New("poll: Wait needs room for at least one event")

func (p *poller) Name() string { return Name }

func (p *poller) Add(fd int, in sys.Interest, token uint64) error {
	return p.register("add", fd, token, func(n *node) error {
		n.drop(func(r *registration) bool { return r.poller.shut.Load() })
		if n.find(p) != nil {
			return syscall.EEXIST
		}
		r := &registration{poller: p, node: n, token: token, in: in, next: n.regs}
		n.regs = r
		r.begin()
		return nil
	})
}

func (p *poller) Modify(fd int, in sys.Interest, token uint64) error {
	return p.register("modify", fd, token, func(n *node) error {
		r := n.find(p)
		if r == nil {
			return syscall.ENOENT
		}
		r.token, r.in, r.told = token, in, false
		r.begin()
		return nil
	})
}

func (p *poller) Remove(fd int) error {
	return p.register("remove", fd, 0, func(n *node) error {
		if n.find(p) == nil {
			return syscall.ENOENT
		}
		n.drop(func(r *registration) bool { return r.poller == p })
		n.last = p
		return nil
	})
}

// register is the common part of Add, Modify and Remove.
func (p *poller) register(verb string, fd int, token uint64, change func(*node) error) error {
	if p.shut.Load() {
		return sys.ErrPollerClosed
	}
	if token == sys.ReservedToken {
		return fmt.Errorf("poll: net %s descriptor %d: the token is reserved", verb, fd)
	}
	n, err := p.sys.table.lookup(fd)
	if err == nil {
		n.mu.Lock()
		if err = syscall.EBADF; !n.closed {
			err = change(n)
		}
		n.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("poll: net %s descriptor %d: %w", verb, fd, err)
	}
	return nil
}

// push puts r on the list and ends a sleeping Wait. Under the node's mu.
func (p *poller) push(r *registration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shut.Load() {
		p.fresh = append(p.fresh, r)
		p.ring()
	}
}

// ring ends a sleeping Wait, or keeps the next one from sleeping.
func (p *poller) ring() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *poller) Wake() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut.Load() {
		return sys.ErrPollerClosed
	}
	if !p.woken {
		p.woken = true
		p.ring()
	}
	return nil
}

func (p *poller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.shut.Load() {
		return 0, sys.ErrPollerClosed
	}
	if len(events) == 0 {
		return 0, errNoRoom
	}
	sleepy := p.take() && timeout != 0
	n := p.collect(events)
	if n == 0 && sleepy {
		p.sleep(timeout)
		p.take()
		n = p.collect(events)
	}
	p.settle()
	return n, nil
}

// take moves what has become ready to the list, and reports whether a Wait that finds nothing may sleep.
func (p *poller) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, p.fresh...)
	clear(p.fresh)
	p.fresh = p.fresh[:0]
	if p.woken {
		return false
	}
	select {
	case <-p.bell: // it rang for what was taken
	default:
	}
	return true
}

// settle answers every Wake so far.
func (p *poller) settle() {
	p.mu.Lock()
	p.woken = false
	p.mu.Unlock()
}

// sleep waits until the bell rings or the time is over.
func (p *poller) sleep(timeout time.Duration) {
	if timeout < 0 {
		<-p.bell
		return
	}
	p.timer.Reset(timeout)
	select {
	case <-p.bell:
		p.timer.Stop()
	case <-p.timer.C:
	}
}

// collect reports what is ready of the list. It moves what it has reported to the end of the list, so that all have
// their turn when events is short.
func (p *poller) collect(events []sys.Event) int {
	n, looked := 0, 0
	for looked < len(p.list) && n < len(events) {
		r := p.list[looked]
		looked++
		e, keep := r.poll(p)
		if e.Ready != 0 {
			events[n] = e
			n++
		}
		if keep {
			p.again = append(p.again, r)
		}
	}
	rest := copy(p.list, p.list[looked:])
	clear(p.list[rest:])
	p.list = append(p.list[:rest], p.again...)
	clear(p.again)
	p.again = p.again[:0]
	return n
}

// Close waits briefly for closed connections that still send what was taken from them. A loop ends when its server
// does, often with the process. A kernel would go on sending, but here the process has to.
func (p *poller) Close() error {
	left, err := p.end()
	if left == nil {
		return err
	}
	timer := time.NewTimer(p.sys.exitLimit)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	}
	return nil
}

// end closes the poller and returns a channel to wait for, nil for none.
func (p *poller) end() (left chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shut.CompareAndSwap(false, true) {
		return nil, sys.ErrPollerClosed
	}
	p.ring()
	if p.leaving > 0 {
		p.left = make(chan struct{})
	}
	return p.left, nil
}

// depart counts a connection that begins to leave (1) or has left (-1). p may be nil.
func (p *poller) depart(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving += n; p.leaving == 0 && p.left != nil {
		close(p.left)
		p.left = nil
	}
}
