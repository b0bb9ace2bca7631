package accept

import (
	"net"
	"net/netip"

	"github.com/go-eddy/eddy/internal/sys"
)

// maxLocals bounds the addresses that an acceptor remembers. A host has few; beyond the bound each connection has a copy.
const maxLocals = 256

// locals are the local addresses of a listener's connections, which share them.
type locals struct {
	ask   bool            // each connection is asked for its own
	one   *netip.AddrPort // else that of all, nil for a Unix socket
	known map[netip.AddrPort]*netip.AddrPort
}

// learn notes the address that the listener is bound to.
func (s *locals) learn(bound net.Addr) {
	t, ok := bound.(*net.TCPAddr)
	if !ok {
		return
	}
	if s.ask = t.IP.IsUnspecified(); !s.ask {
		s.one = s.share(t.AddrPort())
	}
}

// of returns the local address of a socket, nil if there is none. foreign says that the listener did not bring it.
func (s *locals) of(sock sys.Sockets, fd int, foreign bool) *netip.AddrPort {
	if !s.ask && !foreign {
		return s.one
	}
	local, _ := sock.LocalAddr(fd) // unknown stays the zero address
	return s.share(local)
}

// share returns a pointer to the address, the same one for all connections that have this address.
func (s *locals) share(local netip.AddrPort) *netip.AddrPort {
	if !local.IsValid() {
		return nil
	}
	if p := s.known[local]; p != nil {
		return p
	}
	p := &local
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*netip.AddrPort)
	}
	if len(s.known) < maxLocals {
		s.known[local] = p
	}
	return p
}
