package rpc

import (
	"context"
	"slices"

	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/follow"
)

// follow keeps the addresses current, on a goroutine of its own.
func (cl *Client) follow() {
	cl.follower = &follow.Follower{
		Resolver: cl.o.Resolver, Pauses: cl.o.Backoff.schedule(cl.o.Rand), Apply: cl.apply,
		Failed: func(err error, first bool) {
			cl.warn(&cl.logs.resolver, "rpc: resolving failed; the addresses stay as they are", "err", err)
			if first {
				cl.resolveFailed(err)
			}
		},
	}
	cl.life.tasks.Go(func() { cl.follower.Run(cl.life.ctx) })
}

// balanceStats returns the numbers of the client's parts.
func (cl *Client) balanceStats() balance.Stats {
	s := cl.balancer.Stats()
	if cl.follower != nil {
		cl.follower.Put(&s)
	}
	cl.maker.Put(&s)
	return s
}

// resolveFailed retries the calls that wait for the resolver's first answer, when that is an error.
func (cl *Client) resolveFailed(err error) {
	cl.mu.Lock()
	cl.resolved = true
	cl.failure = &causeError{kinds: kindsDown, text: "resolving: " + err.Error(), cause: err}
	cl.mu.Unlock()
	cl.retryWaiting()
}

// apply connects to the addresses that are new, and lets go of those that the resolver no longer returns.
func (cl *Client) apply(list []discovery.Instance) {
	cl.mu.Lock()
	cl.resolved = true
	if cl.life.closing.Load() && len(list) > 0 { // a closing client needs no new ones
		cl.mu.Unlock()
		return
	}
	cl.balancer.Update(list, func(n *balance.Node) {
		n.SetUp(false)
		if !cl.life.closing.Load() {
			p := cl.newPeer(n)
			n.Value = p
			cl.peers = append(cl.peers, p)
		}
	})
	stays := make(map[*balance.Node]bool)
	for _, n := range cl.balancer.Nodes() {
		stays[n] = true
	}
	var gone []*peer
	cl.peers = slices.DeleteFunc(cl.peers, func(p *peer) bool {
		if !stays[p.node] {
			gone = append(gone, p)
		}
		return !stays[p.node]
	})
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
func (cl *Client) newPeer(n *balance.Node) *peer {
	p := &peer{addr: n.Instance.Addr, node: n}
	p.ctx, p.cancel = context.WithCancel(cl.life.ctx)
	for range cl.o.ConnsPerAddr {
		l := newLink(p, cl)
		p.links = append(p.links, l)
		cl.life.links.Add(1)
		go l.run()
	}
	return p
}
