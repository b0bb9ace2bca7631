// Package resolve finds the addresses of servers.
package resolve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// MaxAddrs bounds what a resolver may return.
const MaxAddrs = 1024

// Static is a resolver whose answer never changes.
type Static []string

// Resolve returns the addresses.
func (s Static) Resolve(context.Context) ([]string, error) { return s, nil }

// DNS is a resolver that looks up the addresses of a host.
type DNS struct {
	host   string
	port   uint16
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolve returns each address of the host, with the port.
func (r *DNS) Resolve(ctx context.Context) ([]string, error) {
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

// NewDNS returns a resolver of host:port. The error says what is wrong with the address.
func NewDNS(address string) (*DNS, error) {
	host, port, err := split(address)
	if err != nil {
		return nil, err
	}
	return &DNS{host: host, port: port, lookup: net.DefaultResolver.LookupNetIP}, nil
}

func split(address string) (host string, port uint16, err error) {
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

// Check returns what is wrong with the answer of a resolver, or nil.
func Check(addrs []string) error {
	if len(addrs) > MaxAddrs {
		return fmt.Errorf("rpc: %d addresses, limit %d", len(addrs), MaxAddrs)
	}
	for _, a := range addrs {
		if _, _, err := split(a); err != nil {
			return err
		}
	}
	return nil
}
