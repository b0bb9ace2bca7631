//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// longestBacklog is more than systems grant by default; they cut it to their
// own limit. Some keep only 16 bits of it.
const longestBacklog = 1<<16 - 1

func (s *sockets) Listen(network, address string, o ListenOptions) (Listener, error) {
	fd, err := s.listen(network, address, o)
	if err != nil {
		return Listener{FD: -1}, fmt.Errorf("sys: listen %s %s: %w", network, address, err)
	}
	local, err := s.LocalAddr(fd)
	if err != nil {
		unix.Close(fd)
		return Listener{FD: -1}, fmt.Errorf("sys: listen %s %s: %w", network, address, os.NewSyscallError("getsockname", err))
	}
	return Listener{FD: fd, Addr: net.TCPAddrFromAddrPort(local)}, nil
}

func (s *sockets) listen(network, address string, o ListenOptions) (int, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return -1, fmt.Errorf("network %q is not tcp, tcp4 or tcp6", network)
	}
	if o.Backlog < 0 {
		return -1, fmt.Errorf("backlog %d is negative", o.Backlog)
	}
	addr, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return -1, err
	}
	if network == "tcp" && len(addr.IP) == 0 {
		fd, err := bind(unix.AF_INET6, addr, false, o)
		if err == nil || errors.Is(err, unix.EADDRINUSE) {
			return fd, err
		}
		return bind(unix.AF_INET, addr, false, o) // no IPv6 here, or not both in one socket
	}
	if network == "tcp4" || addr.IP.To4() != nil {
		return bind(unix.AF_INET, addr, false, o)
	}
	return bind(unix.AF_INET6, addr, true, o)
}

// bind makes one listening socket. only6 keeps IPv4 peers out of an IPv6 one.
func bind(family int, addr *net.TCPAddr, only6 bool, o ListenOptions) (fd int, err error) {
	sa, err := sockaddr(family, addr)
	if err != nil {
		return -1, err
	}
	fd, err = streamSocket(family)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, os.NewSyscallError("setsockopt", err)
	}
	if family == unix.AF_INET6 {
		v := 0
		if only6 {
			v = 1
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, v); err != nil {
			return -1, os.NewSyscallError("setsockopt", err)
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return -1, os.NewSyscallError("bind", err)
	}
	backlog := o.Backlog
	if backlog == 0 {
		backlog = longestBacklog
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return -1, os.NewSyscallError("listen", err)
	}
	return fd, nil
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

// addr6 is an IPv6 address as callers want to see it: IPv4 peers of a
// dual-stack socket as IPv4.
func addr6(b [16]byte, zone uint32) netip.Addr {
	ip := netip.AddrFrom16(b).Unmap()
	if zone != 0 && ip.Is6() {
		ip = ip.WithZone(strconv.FormatUint(uint64(zone), 10))
	}
	return ip
}
