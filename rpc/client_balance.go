package rpc

import (
	"slices"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/rpc/balance"
)

// routes are the connections that take calls, those of an address side by side. Immutable.
type routes struct{ all []*wire }

// try offers a call to the connections of r, the chosen one first. The error is a *limitError if those that may take the
// call are full, or errAway if they are about to leave the routes. With no connection there is no error.
func (cl *Client) try(c *call, r *routes) (taken bool, err error) {
	n := len(r.all)
	if n == 0 {
		return false, nil
	}
	first := cl.choose(c, r)
	passes := 1
	if len(c.refused) > 0 {
		passes = 2 // other addresses, then other connections to the same
	}
	for pass := range passes {
		for i := range n {
			w := r.all[(first+i)%n]
			if c.only != nil && w.link.peer != c.only {
				continue
			}
			if len(c.refused) > 0 && c.attempts(w) != pass {
				continue
			}
			switch e := w.submit(c); {
			case e == nil:
				c.tried.add(w.link.peer.node)
				return true, nil
			case err == nil, err == errAway: //nolint:errorlint // returned bare
				err = e
			}
		}
	}
	return false, err
}

// choose returns the index in r of the connection that is offered a call first.
func (cl *Client) choose(c *call, r *routes) int {
	if len(r.all) == 1 {
		return 0
	}
	node := cl.balancer.Pick(c.hash, c.triedNodes())
	if node == nil {
		return 0
	}
	p, ok := node.Value.(*peer)
	if !ok { // the client is closing
		return 0
	}
	at := p.place.Load()
	if at == nil || at.r != r || at.n == 0 { // another connection has come or gone meanwhile
		return 0
	}
	if cl.o.Balance.Policy != balance.LeastRequests {
		return at.from + int((p.turn.Add(1)-1)%uint32(at.n))
	}
	best := at.from
	for i := at.from + 1; i < at.from+at.n; i++ {
		if r.all[i].load.Load() < r.all[best].load.Load() {
			best = i
		}
	}
	return best
}

// triedNodes returns the servers that have not served the call.
func (c *call) triedNodes() []*balance.Node {
	nodes := c.tried.list()
	for _, w := range c.refused {
		nodes = append(nodes, w.link.peer.node)
	}
	return nodes
}

// attempts returns how often the address of w has refused the call. If w itself has, the result is beyond try's passes.
func (f *refusals) attempts(w *wire) int {
	if slices.Contains(f.refused, w) {
		return len(f.refused) + 2
	}
	return f.by(w.link.peer)
}

// mayTry reports whether the call may be offered to an address: after the first refusal one more attempt is left.
func (f *refusals) mayTry(p *peer) bool { return f.by(p) < 2 }

// by returns how often an address has refused the call.
func (f *refusals) by(p *peer) (n int) {
	for _, w := range f.refused {
		if w.link.peer == p {
			n++
		}
	}
	return n
}

// failOver offers a call to other connections because w certainly did not execute it, and takes over one reference.
func (cl *Client) failOver(c *call, w *wire, refusal error) {
	c.refused = append(c.refused, w)
	c.refusal = refusal
	if cl.life.ctx.Err() != nil {
		if c.claim() {
			c.fail(c.error(errClosed, ExecutedNo))
		}
		c.release()
		return
	}
	if !c.claimed.Load() {
		cl.stats.failovers.Add(1)
	}
	cl.dispatch(c)
}

func (cl *Client) failOverAll(unsent []*call, w *wire, cause error) {
	for _, c := range unsent {
		c.sent.Store(false)
		cl.failOver(c, w, c.error(cause, ExecutedNo))
	}
}

// ready puts a new connection to use. On the link's goroutine.
func (cl *Client) ready(w *wire) {
	cl.mu.Lock()
	w.mu.Lock()
	open := w.state == wireOpen
	w.mu.Unlock()
	if open {
		w.link.connecting, w.link.wire = false, w
		cl.reroute()
	}
	cl.mu.Unlock()
	if open {
		cl.retryWaiting()
	}
}

// unready takes a connection out of use.
func (cl *Client) unready(w *wire) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if l := w.link; l.wire == w {
		l.wire = nil
		l.connecting = true // until the link's goroutine says otherwise
		cl.reroute()
	}
}

// reroute publishes the connections in use. cl.mu is held.
func (cl *Client) reroute() {
	r := &routes{}
	for _, p := range cl.peers {
		from := len(r.all)
		for _, l := range p.links {
			if l.wire != nil {
				r.all = append(r.all, l.wire)
			}
		}
		p.place.Store(&place{r, from, len(r.all) - from})
	}
	cl.routes.Store(r)
	for _, p := range cl.peers {
		p.node.SetUp(p.place.Load().n > 0)
	}
}

// wireEnded counts the end of a connection. On its loop.
func (cl *Client) wireEnded(w *wire, reason eddy.CloseReason, err error) {
	if cl.life.ctx.Err() != nil || reason == eddy.CloseNormal {
		return
	}
	cl.stats.lost.Add(1)
	cl.warn(&cl.logs.dial, "rpc: a connection was lost", "peer", w.link.peer.addr, "reason", reason.String(), "err", err)
	cl.resolveAgain()
}

// resolveAgain has the resolver asked before its time, if it can be.
func (cl *Client) resolveAgain() {
	if cl.follower != nil {
		cl.follower.Refresh()
	}
}

// linkFailed notes a failed attempt to connect, or a connection without an answer, and retries the calls that wait.
func (cl *Client) linkFailed(l *link, err error, pause time.Duration) {
	cl.stats.dialFailures.Add(1)
	cl.warn(&cl.logs.dial, "rpc: no connection", "peer", l.peer.addr, "err", err, "again_in", pause)
	cl.mu.Lock()
	l.connecting, cl.failure = false, err
	cl.mu.Unlock()
	cl.resolveAgain()
	cl.retryWaiting()
}

// setConnecting notes whether a link is about to connect, and returns its connection, if it has one.
func (cl *Client) setConnecting(l *link, connecting bool) *wire {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	l.connecting = connecting
	return l.wire
}
