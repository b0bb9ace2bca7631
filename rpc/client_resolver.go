package rpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
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

// maxAddrs bounds what a Resolver may return.
const maxAddrs = 1024

// Static returns a Resolver whose answer never changes. Host names are looked up each time a connection is made, and
// their addresses are tried in turn.
func Static(addrs ...string) Resolver { return staticAddrs(slices.Clone(addrs)) }

type staticAddrs []string

// Resolve implements Resolver.
func (s staticAddrs) Resolve(context.Context) ([]string, error) { return s, nil }

// DNS returns a Resolver that looks up the host of host:port and returns each of its addresses, so that calls are spread over
// all of them. The error says what is wrong with the address.
func DNS(address string) (Resolver, error) {
	host, port, err := splitAddr(address)
	if err != nil {
		return nil, err
	}
	return &dnsResolver{host: host, port: port, lookup: net.DefaultResolver.LookupNetIP}, nil
}

type dnsResolver struct {
	host   string
	port   uint16
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolve implements Resolver.
func (r *dnsResolver) Resolve(ctx context.Context) ([]string, error) {
	ips, err := r.lookup(ctx, "ip", r.host)
	if err != nil {
		return nil, fmt.Errorf("rpc: looking up %s: %w", r.host, err)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("rpc: looking up %s: no address", r.host)
	}
	addrs := make([]string, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), r.port).String()
	}
	return addrs, nil
}

func splitAddr(address string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("rpc: address %q: %w", address, err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("rpc: address %q: the port must be a number from 1 to 65535", address)
	}
	if host == "" {
		host = "localhost"
	}
	return host, uint16(n), nil
}

// resolveLoop keeps the addresses current, on a goroutine of its own.
func (cl *Client) resolveLoop() {
	defer cl.tasks.Done()
	for failures := 0; ; {
		addrs, err := cl.o.Resolver.Resolve(cl.ctx)
		if cl.ctx.Err() != nil {
			return
		}
		wait := cl.o.ResolveEvery
		if err == nil {
			err = cl.checkAddrs(addrs)
		}
		if err != nil {
			failures++
			wait = min(wait, cl.backoff(failures))
			cl.stats.resolveFailures.Add(1)
			cl.warn(&cl.logs.resolver, "rpc: resolving failed; the addresses stay as they are", "err", err, "again_in", wait)
			cl.resolveFailed(err)
		} else {
			failures = 0
			cl.apply(addrs)
		}
		gap := min(wait, resolveGap)
		if !cl.pause(cl.ctx, gap, nil) || wait > gap && !cl.pause(cl.ctx, wait-gap, cl.again) {
			return
		}
	}
}

func (cl *Client) checkAddrs(addrs []string) error {
	if len(addrs) > maxAddrs {
		return fmt.Errorf("rpc: %d addresses, limit %d", len(addrs), maxAddrs)
	}
	for _, a := range addrs {
		if _, _, err := splitAddr(a); err != nil {
			return err
		}
	}
	return nil
}
