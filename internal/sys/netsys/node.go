package netsys

import (
	"sync"

	"github.com/go-eddy/eddy/internal/sys"
)

// node is the common part of all descriptors: a place in the table and registrations with pollers. Its mutex guards the
// whole descriptor and is never held across a system call. It is locked before that of a poller.
type node struct {
	mu     sync.Mutex
	fd     int
	what   descriptor
	regs   *registration
	last   *poller // the poller that removed it last
	closed bool
}

// descriptor is the part that depends on the kind: connection, listener or reserve.
type descriptor interface {
	// ready returns which conditions hold now, of those asked for and those that are reported unasked. Under node.mu.
	ready(in sys.Interest) sys.Ready
	// watch is called when nothing that is asked for holds. It arranges that update is called when that changes. Under
	// node.mu.
	watch(in sys.Interest)
	// close releases everything. The descriptor is no longer in the table.
	close() error
}

// registration is a node's place in one poller. A node may have several: a loop that replaces its poller adds its
// descriptors to the new one before it gives up the old one. Guarded by node.mu.
type registration struct {
	poller *poller // nil after Remove
	node   *node
	token  uint64
	in     sys.Interest
	queued bool // on a list of the poller
	told   bool // under None: an end was reported
	next   *registration
}

// find returns the registration with p.
func (n *node) find(p *poller) *registration {
	for r := n.regs; r != nil; r = r.next {
		if r.poller == p {
			return r
		}
	}
	return nil
}

// drop forgets the registrations for which over returns true.
func (n *node) drop(over func(*registration) bool) {
	for at := &n.regs; *at != nil; {
		if r := *at; over(r) {
			*at = r.next
			r.poller = nil
		} else {
			at = &r.next
		}
	}
}

// update tells the pollers when a condition that they ask for holds now. Under mu.
func (n *node) update() {
	for r := n.regs; r != nil; r = r.next {
		r.update()
	}
}

func (r *registration) update() {
	if !r.queued && r.ready() != 0 {
		r.queued = true
		r.poller.push(r)
	}
}

// begin follows a change of interest. It reports what holds already, or watches for it.
func (r *registration) begin() {
	if r.update(); !r.queued {
		r.node.what.watch(r.in)
	}
}

// ready returns what the poller should report now.
func (r *registration) ready() sys.Ready {
	if r.in == sys.None && r.told {
		return 0
	}
	return r.node.what.ready(r.in)
}

// poll returns the event of a registration on the poller's list. keep says that it stays on the list, because a
// condition that held is checked again in the next Wait.
func (r *registration) poll(p *poller) (e sys.Event, keep bool) {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.poller != p {
		return sys.Event{}, false
	}
	ready := r.ready()
	if ready == 0 {
		r.queued = false
		n.what.watch(r.in)
		return sys.Event{}, false
	}
	if r.in == sys.None {
		r.told, r.queued = true, false
	}
	return sys.Event{Token: r.token, Ready: ready}, r.queued
}
