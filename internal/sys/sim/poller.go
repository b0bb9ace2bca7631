package sim

import (
	"slices"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// poller is the sys.Poller of the world.
type poller struct {
	w      *World
	regs   []*registration // in the order in which they were made
	gone   []uint64        // tokens of the last ones removed
	found  []sys.Event     // scratch
	woken  bool
	closed bool
}

type registration struct {
	fd    int
	file  *file
	in    sys.Interest
	token uint64
	told  bool // under None: the hangup was reported since the last Modify
}

func (w *World) newPoller() (sys.Poller, error) {
	p := &poller{w: w}
	w.pollers = append(w.pollers, p)
	return p, nil
}

func (p *poller) find(fd int) *registration {
	for _, r := range p.regs {
		if r.fd == fd {
			return r
		}
	}
	return nil
}

// Registration makes the poller a simhook.Inspector.
func (p *poller) Registration(fd int) (sys.Interest, uint64, bool) {
	if r := p.find(fd); r != nil {
		return r.in, r.token, true
	}
	return 0, 0, false
}

func (p *poller) Add(fd int, in sys.Interest, token uint64) error {
	w := p.w
	w.enter("poll-add", fd)
	f := w.file("poll-add", fd)
	switch {
	case f == nil:
		return syscall.EBADF
	case p.misused("Add", token):
		return sys.ErrPollerClosed
	case p.find(fd) != nil:
		w.Failf("descriptor %d is registered twice", fd)
		return syscall.EEXIST
	case w.Hit(AddFails):
		return syscall.ENOSPC
	}
	if f.end != nil {
		w.own("poll-add", fd, f.end)
	}
	p.regs = append(p.regs, &registration{fd: fd, file: f, in: in, token: token})
	w.changed()
	return nil
}

func (p *poller) Modify(fd int, in sys.Interest, token uint64) error {
	w := p.w
	w.enter("poll-modify", fd)
	r := p.find(fd)
	switch {
	case p.misused("Modify", token):
		return sys.ErrPollerClosed
	case r == nil:
		w.Failf("change of descriptor %d, which is not registered", fd)
		return syscall.ENOENT
	case w.Hit(ModifyFails):
		return syscall.ENOMEM
	}
	w.trace("poll-modify", fd, int(in), nil)
	r.in, r.token, r.told = in, token, false
	w.changed()
	return nil
}

func (p *poller) Remove(fd int) error {
	w := p.w
	w.enter("poll-remove", fd)
	for i, r := range p.regs {
		if r.fd == fd {
			p.regs = append(p.regs[:i], p.regs[i+1:]...)
			p.forget(r.token)
			r.disown()
			return nil
		}
	}
	w.Failf("removal of descriptor %d, which is not registered", fd)
	return syscall.ENOENT
}

// disown leaves a stream that nothing was read from or written to for another loop to take.
func (r *registration) disown() {
	if e := r.file.end; e != nil && e.moved == 0 {
		e.owner = nil
	}
}

// forget keeps a removed token, for stale reports.
func (p *poller) forget(token uint64) {
	const most = 8
	if p.gone = append(p.gone, token); len(p.gone) > most {
		p.gone = p.gone[1:]
	}
}

func (p *poller) misused(op string, token uint64) bool {
	if token == sys.ReservedToken {
		p.w.Failf("%s with the reserved token", op)
	}
	if p.closed {
		p.w.Failf("%s on a closed poller", op)
	}
	return p.closed
}

// ready returns the conditions that the registration reports.
func (r *registration) ready() sys.Ready {
	const bad = sys.Hangup | sys.Failed
	all := r.file.ready()
	var got sys.Ready
	if r.in&sys.Read != 0 {
		got |= all & sys.Readable
	}
	if r.in&sys.Write != 0 {
		got |= all & sys.Writable
	}
	if r.in != sys.None || !r.told {
		got |= all & bad
	}
	return got
}

// wakes reports whether a Wait would end now.
func (p *poller) wakes() bool {
	if p.woken {
		return true
	}
	for _, r := range p.regs {
		if r.ready() != 0 {
			return true
		}
	}
	return p.w.Hit(WaitInterrupted)
}

func (p *poller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	w := p.w
	w.enter("wait", int(timeout))
	r := w.cur
	switch {
	case p.closed:
		w.Failf("wait on a closed poller")
		return 0, sys.ErrPollerClosed
	case len(events) == 0:
		w.Failf("wait with room for no event")
		return 0, syscall.EINVAL
	case r == nil:
		w.Failf("wait outside a loop")
		return 0, syscall.EINVAL
	}
	r.poller, r.timeout, r.deadline = p, timeout, w.now+int64(timeout)
	w.pause()
	r.poller = nil
	p.woken = false
	if w.Hit(WaitFails) {
		return 0, syscall.EBADF
	}
	n := p.collect(events)
	w.trace("events", n, 0, nil)
	return n, nil
}

// collect fills events with what is ready, in any order, and with faults.
func (p *poller) collect(events []sys.Event) int {
	w := p.w
	found := p.found[:0]
	for _, r := range p.regs {
		ready := r.ready()
		if r.in&sys.Read != 0 && ready&sys.Readable == 0 && w.Hit(SpuriousReadable) {
			ready |= sys.Readable
		}
		if r.in&sys.Write != 0 && ready&sys.Writable == 0 && w.Hit(SpuriousWritable) {
			ready |= sys.Writable
		}
		if ready == 0 || len(found) > 0 && w.Hit(LateEvent) {
			continue
		}
		if split := ready & sys.Writable; split != 0 && split != ready && w.Hit(SplitEvent) {
			found = append(found, sys.Event{Token: r.token, Ready: split})
			ready &^= split
		}
		found = append(found, sys.Event{Token: r.token, Ready: ready})
	}
	if n := len(p.gone); n > 0 && w.Hit(StaleEvent) {
		found = append(found, sys.Event{Token: p.gone[w.rng.IntN(n)], Ready: sys.Readable | sys.Writable | sys.Hangup | sys.Failed})
	}
	w.rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	p.found = found
	n := copy(events, found)
	for _, r := range p.regs {
		r.told = r.told || r.in == sys.None && slices.ContainsFunc(events[:n], func(ev sys.Event) bool { return ev.Token == r.token })
	}
	return n
}

func (p *poller) Wake() error {
	w := p.w
	w.enter("wake", 0)
	if p.closed {
		return sys.ErrPollerClosed
	}
	p.woken = true
	w.changed()
	return nil
}

func (p *poller) Close() error {
	w := p.w
	w.enter("poll-close", 0)
	if p.closed {
		w.Failf("a poller was closed twice")
		return sys.ErrPollerClosed
	}
	p.closed = true
	return nil
}

func (p *poller) Name() string { return "sim" }
