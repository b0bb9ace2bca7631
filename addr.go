package eddy

import (
	"net/netip"

	"github.com/go-eddy/eddy/internal/accept"
)

// peerAddr is a remote address in 20 bytes instead of a netip.AddrPort's 32. The zero value is the zero AddrPort.
type peerAddr struct {
	ip   [16]byte
	port uint16
	kind addrKind
}

type addrKind uint8

const (
	addrNone   addrKind = iota
	addr4               // ip holds the address as mapped into IPv6
	addr6               // also an IPv4 address that the peer's socket has mapped
	addrScoped          // connExt.zone names the link
)

// RemoteAddr returns the peer's address, the zero AddrPort for Unix sockets. Any goroutine.
func (c *Conn) RemoteAddr() netip.AddrPort {
	ip := netip.AddrFrom16(c.peer.ip)
	switch c.peer.kind {
	case addrNone:
		return netip.AddrPort{}
	case addr4:
		ip = ip.Unmap()
	case addrScoped:
		ip = ip.WithZone(c.ext.Load().zone)
	}
	return netip.AddrPortFrom(ip, c.peer.port)
}

// Network returns the client network of the peer, as Admission.MaxPerIP counts: an IPv4 address or a /64 of IPv6, unless
// IPv4Prefix or IPv6Prefix say otherwise. For Unix sockets it is the zero Prefix. Any goroutine.
func (c *Conn) Network() netip.Prefix {
	if g := c.set.accept.Gate; g != nil {
		return g.Network(c.RemoteAddr())
	}
	return accept.Network(c.RemoteAddr().Addr(), defaultIPv4Prefix, defaultIPv6Prefix)
}

// LocalAddr returns this side's address, the zero AddrPort for Unix sockets. Any goroutine.
func (c *Conn) LocalAddr() netip.AddrPort {
	if c.local == nil {
		return netip.AddrPort{}
	}
	return *c.local
}

// setAddrs notes the addresses of a new connection. Connections share local where they can.
func (c *Conn) setAddrs(remote netip.AddrPort, local *netip.AddrPort) {
	c.local = local
	ip := remote.Addr()
	if !ip.IsValid() {
		return
	}
	c.peer = peerAddr{ip: ip.As16(), port: remote.Port(), kind: addr6}
	switch {
	case ip.Is4():
		c.peer.kind = addr4
	case ip.Zone() != "":
		c.peer.kind = addrScoped
		c.extend().zone = ip.Zone()
	}
}
