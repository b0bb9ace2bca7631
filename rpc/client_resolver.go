package rpc

import (
	"context"
	"slices"
	"time"

	"github.com/go-eddy/eddy/rpc/internal/resolve"
)

// Resolver finds the addresses of servers that serve the same.
type Resolver interface {
	// Resolve returns the addresses to connect to, host:port each. A Client calls Resolve again and again on a goroutine
	// of its own, see ClientOptions.ResolveEvery; Resolve may block until ctx ends. Without an error the result replaces
	// the one before, also if it is empty. New addresses are connected to. Connections to missing ones take no new calls
	// and end when their last call has. An error changes nothing.
	Resolve(ctx context.Context) ([]string, error)
}

// resolveGap is the least time between two questions to a Resolver, however many connections are lost.
const resolveGap = time.Second

// Static returns a Resolver whose answer never changes. Host names are looked up each time a connection is made, and
// their addresses are tried in turn.
func Static(addrs ...string) Resolver { return resolve.Static(slices.Clone(addrs)) }

// DNS returns a Resolver that looks up the host of host:port and returns each of its addresses, so that calls are spread over
// all of them. The error says what is wrong with the address.
func DNS(address string) (Resolver, error) {
	r, err := resolve.NewDNS(address)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// resolveLoop keeps the addresses current, on a goroutine of its own.
func (cl *Client) resolveLoop() {
	defer cl.life.tasks.Done()
	again := cl.o.Backoff.schedule(cl.o.Rand)
	for {
		addrs, err := cl.o.Resolver.Resolve(cl.life.ctx)
		if cl.life.ctx.Err() != nil {
			return
		}
		wait := cl.o.ResolveEvery
		if err == nil {
			err = resolve.Check(addrs)
		}
		if err != nil {
			wait = min(wait, again.Failed())
			cl.stats.resolveFailures.Add(1)
			cl.warn(&cl.logs.resolver, "rpc: resolving failed; the addresses stay as they are", "err", err, "again_in", wait)
			cl.resolveFailed(err)
		} else {
			again.Succeeded()
			cl.apply(addrs)
		}
		gap := min(wait, resolveGap)
		if !cl.pause(cl.life.ctx, gap, nil) || wait > gap && !cl.pause(cl.life.ctx, wait-gap, cl.again) {
			return
		}
	}
}
