package rpc

import (
	"context"
	"slices"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/rpc/internal/balance"
)

// Balance says which connection a call takes.
type Balance uint8

const (
	// RoundRobin takes the addresses in turn, and the connections of each in turn.
	RoundRobin Balance = iota
	// LeastOutstanding takes the connection on which the fewest calls wait for responses.
	LeastOutstanding
	balances
)

// String returns the balance's name.
func (b Balance) String() string {
	return nameOf(b, []string{"round robin", "least outstanding"}, "balance")
}

// try offers a call to the connections of r, the chosen one first. The error is a *limitError if those that may take the
// call are full, or errAway if they are about to leave the routes. With no connection there is no error.
func (cl *Client) try(c *call, r *balance.Routes[*wire]) (taken bool, err error) {
	n := len(r.All)
	if n == 0 {
		return false, nil
	}
	turn := cl.turn.Add(1) - 1
	var first int
	if cl.o.Balance == LeastOutstanding {
		first = r.Least(turn)
	} else {
		first = r.InTurn(turn)
	}
	passes := 1
	if len(c.refused) > 0 {
		passes = 2 // other addresses, then other connections to the same
	}
	for pass := range passes {
		for i := range n {
			w := r.All[(first+i)%n]
			if len(c.refused) > 0 && c.attempts(w) != pass {
				continue
			}
			switch e := w.submit(c); {
			case e == nil:
				return true, nil
			case err == nil, err == errAway: //nolint:errorlint // returned bare
				err = e
			}
		}
	}
	return false, err
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
	var addrs [][]*wire
	for _, p := range cl.peers {
		var ws []*wire
		for _, l := range p.links {
			if l.wire != nil {
				ws = append(ws, l.wire)
			}
		}
		addrs = append(addrs, ws)
	}
	cl.routes.Store(balance.New(addrs...))
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

// resolveAgain has the resolver asked before its time.
func (cl *Client) resolveAgain() {
	select {
	case cl.again <- struct{}{}:
	default:
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

// resolveFailed retries the calls that wait for the resolver's first answer, when that is an error.
func (cl *Client) resolveFailed(err error) {
	cl.mu.Lock()
	first := !cl.resolved
	cl.resolved = true
	if first {
		cl.failure = &causeError{kinds: kindsDown, text: "resolving: " + err.Error(), cause: err}
	}
	cl.mu.Unlock()
	if first {
		cl.retryWaiting()
	}
}

// apply connects to the addresses that are new, and lets go of those that the resolver no longer returns.
func (cl *Client) apply(addrs []string) {
	cl.mu.Lock()
	cl.resolved = true
	if cl.life.closing.Load() && len(addrs) > 0 { // a closing client needs no new ones
		cl.mu.Unlock()
		return
	}
	var gone []*peer
	cl.peers = slices.DeleteFunc(cl.peers, func(p *peer) bool {
		if slices.Contains(addrs, p.addr) {
			return false
		}
		gone = append(gone, p)
		return true
	})
	for _, a := range addrs {
		if !slices.ContainsFunc(cl.peers, func(p *peer) bool { return p.addr == a }) && !cl.life.closing.Load() {
			cl.peers = append(cl.peers, cl.newPeer(a))
		}
	}
	if len(cl.peers) == 0 {
		cl.failure = errNoAddress
	}
	cl.reroute()
	cl.mu.Unlock()
	for _, p := range gone {
		p.cancel()
	}
	cl.retryWaiting()
}

// newPeer begins to connect to an address. cl.mu is held.
func (cl *Client) newPeer(addr string) *peer {
	p := &peer{addr: addr}
	p.ctx, p.cancel = context.WithCancel(cl.life.ctx)
	for range cl.o.ConnsPerAddr {
		l := newLink(p, cl)
		p.links = append(p.links, l)
		cl.life.links.Add(1)
		go l.run()
	}
	return p
}
