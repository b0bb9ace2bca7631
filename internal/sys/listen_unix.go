//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// longestBacklog is more than systems grant by default; they cut it to their
// own limit. Some keep only 16 bits of it.
const longestBacklog = 1<<16 - 1

func (s *sockets) Listen(network, address string, o ListenOptions) (Listener, error) {
	listen := s.listen
	if o.On != nil {
		listen = s.adopt
	}
	l, err := listen(network, address, o)
	if err != nil {
		l.FD = -1
	}
	return l, err
}

func (s *sockets) listen(network, address string, o ListenOptions) (Listener, error) {
	if o.Backlog < 0 {
		return Listener{}, fmt.Errorf("backlog %d is negative", o.Backlog)
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
		fd, err := listenTCP(network, address, o)
		if err != nil {
			return Listener{}, err
		}
		local, err := s.LocalAddr(fd)
		if err != nil {
			unix.Close(fd)
			return Listener{}, os.NewSyscallError("getsockname", err)
		}
		return Listener{FD: fd, Addr: net.TCPAddrFromAddrPort(local)}, nil
	case "unix":
		fd, err := s.listenUnix(address, o)
		if err != nil {
			return Listener{}, err
		}
		return Listener{FD: fd, Addr: &net.UnixAddr{Name: address, Net: network}}, nil
	}
	return Listener{}, fmt.Errorf("network %q is not tcp, tcp4, tcp6 or unix", network)
}

// adopt takes over a listener with a second descriptor of its socket. Only
// package net's own types are taken, because the Accept of any other may do
// more than the system's.
func (s *sockets) adopt(_, _ string, o ListenOptions) (Listener, error) {
	ln := o.On
	fd, err := second(ln)
	if err != nil {
		return Listener{}, err
	}
	if _, ok := ln.(*net.TCPListener); ok {
		if err := inheritedOptions(fd, o.KeepAlive, o.RecvBuffer, o.SendBuffer, o.Unsent); err != nil {
			unix.Close(fd)
			return Listener{}, err
		}
	}
	s.own(fd, ln)
	return Listener{FD: fd, Addr: ln.Addr()}, nil
}

// second returns another, non-blocking descriptor of a socket of package net. The socket no longer lingers, because a close
// on a loop must not wait, and what a listener accepts has that from it.
func second(socket any) (int, error) {
	switch socket.(type) {
	case *net.TCPListener, *net.UnixListener, *net.TCPConn, *net.UnixConn:
	default:
		return -1, fmt.Errorf("a %T has no descriptor for the poller: %w", socket, errors.ErrUnsupported)
	}
	fd, err := dup(socket.(syscall.Conn))
	if err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	_ = setLinger(fd, &unix.Linger{}) // only TCP has it
	return fd, nil
}

func (s *sockets) Take(c net.Conn) (fd int, peer netip.AddrPort, err error) {
	if fd, err = second(c); err != nil {
		return -1, peer, err
	}
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		_ = setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // the peer may be gone
		peer = t.AddrPort()
		peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	}
	_ = c.Close() // the socket lives on
	return fd, peer, nil
}

// own closes c with the descriptor.
func (s *sockets) own(fd int, c io.Closer) {
	if s.owned == nil {
		s.owned = make(map[int]io.Closer)
	}
	s.owned[fd] = c
}

func listenTCP(network, address string, o ListenOptions) (int, error) {
	addr, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return -1, err
	}
	if network == "tcp" && len(addr.IP) == 0 {
		fd, err := bindTCP(unix.AF_INET6, addr, false, o)
		if err == nil || errors.Is(err, unix.EADDRINUSE) {
			return fd, err
		}
		return bindTCP(unix.AF_INET, addr, false, o) // no IPv6 here, or not both in one socket
	}
	if network == "tcp4" || addr.IP.To4() != nil {
		return bindTCP(unix.AF_INET, addr, false, o)
	}
	return bindTCP(unix.AF_INET6, addr, true, o)
}

// bindTCP makes one listening socket. only6 keeps IPv4 peers out of an IPv6
// socket.
func bindTCP(family int, addr *net.TCPAddr, only6 bool, o ListenOptions) (int, error) {
	sa, err := sockaddr(family, addr)
	if err != nil {
		return -1, err
	}
	fd, err := streamSocket(family)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = listenOptions(fd, family, only6, o)
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, sa))
	}
	if err == nil {
		err = startListening(fd, o.Backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func listenOptions(fd, family int, only6 bool, o ListenOptions) error {
	if err := setOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, "SO_REUSEADDR", 1); err != nil {
		return err
	}
	if family == unix.AF_INET6 {
		v := 0
		if only6 {
			v = 1
		}
		if err := setOption(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, "IPV6_V6ONLY", v); err != nil {
			return err
		}
	}
	if o.ReusePort {
		if err := setOption(fd, unix.SOL_SOCKET, reusePort, "SO_REUSEPORT", 1); err != nil {
			return err
		}
	}
	return inheritedOptions(fd, o.KeepAlive, o.RecvBuffer, o.SendBuffer, o.Unsent)
}

func startListening(fd, backlog int) error {
	if backlog == 0 {
		backlog = longestBacklog
	}
	return os.NewSyscallError("listen", unix.Listen(fd, backlog))
}

func sockaddr(family int, addr *net.TCPAddr) (unix.Sockaddr, error) {
	if family == unix.AF_INET {
		sa := &unix.SockaddrInet4{Port: addr.Port}
		if ip := addr.IP.To4(); ip != nil {
			copy(sa.Addr[:], ip)
		} else if len(addr.IP) != 0 {
			return nil, fmt.Errorf("%s is not an IPv4 address", addr.IP)
		}
		return sa, nil
	}
	sa := &unix.SockaddrInet6{Port: addr.Port, ZoneId: zoneID(addr.Zone)}
	copy(sa.Addr[:], addr.IP.To16())
	return sa, nil
}

func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

// addr6 returns an IPv6 address as callers want to see it: IPv4 peers of a
// dual-stack socket have IPv4 addresses.
func addr6(b [16]byte, zone uint32) netip.Addr {
	ip := netip.AddrFrom16(b).Unmap()
	if zone != 0 && ip.Is6() {
		ip = ip.WithZone(strconv.FormatUint(uint64(zone), 10))
	}
	return ip
}
