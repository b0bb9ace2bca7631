//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// outcome waits for the end of a Connect.
func outcome(tb testing.TB, s Sockets, fd int) error {
	tb.Helper()
	_, err := again(tb, func() (int, error) { return 0, s.ConnectError(fd) })
	return err
}

// dial is a Connect that must succeed.
func dial(tb testing.TB, s Sockets, network string, remote net.Addr, o ConnectOptions) int {
	tb.Helper()
	fd, done, err := s.Connect(network, remote, o)
	must(tb, err)
	tb.Cleanup(func() { s.Close(fd) })
	if !done {
		must(tb, outcome(tb, s, fd))
	}
	return fd
}

func accept(tb testing.TB, s Sockets, l Listener) (fd int, peer netip.AddrPort) {
	tb.Helper()
	fd, err := again(tb, func() (n int, err error) {
		n, peer, err = s.Accept(l.FD)
		return n, err
	})
	must(tb, err)
	tb.Cleanup(func() { s.Close(fd) })
	return fd, peer
}

// exchange sends a word each way.
func exchange(tb testing.TB, s Sockets, a, b int) {
	tb.Helper()
	for _, way := range [][2]int{{a, b}, {b, a}} {
		n, err := s.Write(way[0], []byte("word"))
		if n != 4 || err != nil {
			tb.Fatalf("Write: %d, %v", n, err)
		}
		in := make([]byte, 16)
		n, err = again(tb, func() (int, error) { return s.Read(way[1], in) })
		if err != nil || string(in[:n]) != "word" {
			tb.Fatalf("Read: %q, %v", in[:n], err)
		}
	}
}

// TestConnect: both ends agree on the addresses, and the socket neither blocks
// nor is inherited. An address without a host means this host.
func TestConnect(t *testing.T) {
	for _, c := range []struct {
		network, listen string
		remote          func(port int) *net.TCPAddr
	}{
		{"tcp", "127.0.0.1:0", func(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }},
		{"tcp4", "127.0.0.1:0", func(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IP{127, 0, 0, 1}, Port: port} }},
		{"tcp", "127.0.0.1:0", func(port int) *net.TCPAddr { return &net.TCPAddr{Port: port} }},
		{"tcp", "[::1]:0", func(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv6loopback, Port: port} }},
		{"tcp6", "[::1]:0", func(port int) *net.TCPAddr { return &net.TCPAddr{Port: port} }},
	} {
		t.Run(c.network+" "+c.listen, func(t *testing.T) {
			if strings.Contains(c.listen, "::") && !haveIPv6() {
				t.Skip("no IPv6 here")
			}
			s := NewSockets()
			l := listen(t, s, "tcp", c.listen)
			fd := dial(t, s, c.network, c.remote(l.Addr.(*net.TCPAddr).Port), ConnectOptions{})
			server, peer := accept(t, s, l)
			if local, err := s.LocalAddr(fd); err != nil || local != peer {
				t.Errorf("local address %v, %v; the server sees %v", local, err, peer)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("the socket blocks (%v)", err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("the socket is inherited (%v)", err)
			}
			exchange(t, s, fd, server)
			if err := s.ConnectError(fd); err != nil {
				t.Errorf("ConnectError of a connection in use: %v", err)
			}
		})
	}
}

// TestConnectRefused: without a listener the connection fails, at once or
// later.
func TestConnectRefused(t *testing.T) {
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{})
	must(t, err)
	must(t, s.Close(l.FD))
	fd, done, err := s.Connect("tcp", l.Addr, ConnectOptions{})
	if err == nil && done {
		t.Fatal("connected to nobody")
	}
	if err == nil {
		defer s.Close(fd)
		err = outcome(t, s, fd)
	} else if fd != -1 || !strings.Contains(err.Error(), l.Addr.String()) {
		t.Errorf("descriptor %d, %v", fd, err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("connect to a closed port: %v", err)
	}
}

// TestConnectAbandoned: an attempt that gets no answer is under way until Close
// ends it.
func TestConnectAbandoned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems refuse when the accept queue is full")
	}
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{Backlog: 1})
	must(t, err)
	defer s.Close(l.FD)
	for range 100 { // the queue takes a few; then Linux drops what arrives
		fd, _, err := s.Connect("tcp", l.Addr, ConnectOptions{})
		must(t, err)
		switch err := s.ConnectError(fd); err {
		case nil:
			defer s.Close(fd)
		case ErrAgain:
			must(t, s.Close(fd))
			if err := s.ConnectError(fd); !errors.Is(err, syscall.EBADF) {
				t.Fatalf("ConnectError after Close: %v", err)
			}
			return
		default:
			t.Fatal(err)
		}
	}
	t.Fatal("every attempt succeeded, with an accept queue of 1")
}

// TestConnectThenReset: a peer that has left again causes an error of
// ConnectError, or of the first use.
func TestConnectThenReset(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	fd := dial(t, s, "tcp", l.Addr, ConnectOptions{})
	server, _ := accept(t, s, l)
	must(t, unix.SetsockoptLinger(server, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	must(t, s.Close(server))
	var err error
	for err == nil {
		err = s.ConnectError(fd) // until the reset has arrived
	}
	if !IsReset(err) {
		t.Fatalf("ConnectError after a reset: %v", err)
	}
}

func TestConnectFrom(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	spare, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{})
	must(t, err)
	must(t, s.Close(spare.FD)) // its port is free now
	port := spare.Addr.(*net.TCPAddr).AddrPort().Port()
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, c := range []struct {
		name  string
		local netip.AddrPort
		want  netip.AddrPort // port 0: any
	}{
		{"an address", netip.AddrPortFrom(loopback, 0), netip.AddrPortFrom(loopback, 0)},
		{"an IPv4 address in IPv6 form", netip.AddrPortFrom(netip.AddrFrom16(loopback.As16()), 0), netip.AddrPortFrom(loopback, 0)},
		{"a port", netip.AddrPortFrom(netip.Addr{}, port), netip.AddrPortFrom(loopback, port)},
	} {
		t.Run(c.name, func(t *testing.T) {
			fd := dial(t, s, "tcp", l.Addr, ConnectOptions{Local: c.local})
			_, peer := accept(t, s, l)
			if peer.Addr() != c.want.Addr() || c.want.Port() != 0 && peer.Port() != c.want.Port() {
				t.Errorf("the server sees %v, want %v", peer, c.want)
			}
			if local, err := s.LocalAddr(fd); err != nil || local != peer {
				t.Errorf("local address %v, %v; the server sees %v", local, err, peer)
			}
		})
	}
}

// TestConnectErrors: the error names what cannot be connected, and no
// descriptor is left.
func TestConnectErrors(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	busy := l.Addr.(*net.TCPAddr).AddrPort()
	v6 := netip.MustParseAddrPort("[::1]:0")
	for _, c := range []struct {
		network string
		remote  net.Addr
		o       ConnectOptions
		want    error
		names   string
	}{
		{"udp", l.Addr, ConnectOptions{}, nil, `"udp"`},
		{"unix", l.Addr, ConnectOptions{}, nil, `"unix"`},
		{"tcp6", l.Addr, ConnectOptions{}, nil, "127.0.0.1"},
		{"tcp4", &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, ConnectOptions{}, nil, "::1"},
		{"tcp", &net.UDPAddr{}, ConnectOptions{}, nil, "*net.UDPAddr"},
		{"tcp", nil, ConnectOptions{}, nil, "<nil>"},
		{"tcp", l.Addr, ConnectOptions{Local: netip.MustParseAddrPort("192.0.2.1:0")}, syscall.EADDRNOTAVAIL, "192.0.2.1"},
		{"tcp", l.Addr, ConnectOptions{Local: busy}, syscall.EADDRINUSE, busy.String()},
		{"tcp", l.Addr, ConnectOptions{Local: v6}, nil, "::1 is of the other IP version"},
		{"tcp", &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, ConnectOptions{Local: busy}, nil, "127.0.0.1 is of the other IP version"},
		{"tcp", l.Addr, ConnectOptions{RecvBuffer: -1}, nil, "RecvBuffer -1"},
		{"tcp", l.Addr, ConnectOptions{SendBuffer: -2}, nil, "SendBuffer -2"},
		{"tcp", l.Addr, ConnectOptions{KeepAlive: longestKeepAlive + 1}, nil, longestKeepAlive.String()},
		{"tcp", &net.UnixAddr{Name: "x"}, ConnectOptions{}, nil, `"tcp"`},
		{"unix", &net.UnixAddr{}, ConnectOptions{}, nil, "empty"},
		{"unix", &net.UnixAddr{Name: t.TempDir() + "/none"}, ConnectOptions{}, syscall.ENOENT, "no such file"},
		{"unix", &net.UnixAddr{Name: "x"}, ConnectOptions{Local: busy}, nil, busy.String()},
	} {
		before := openDescriptors()
		fd, done, err := s.Connect(c.network, c.remote, c.o)
		if err == nil {
			s.Close(fd)
			t.Errorf("%s %v: no error", c.network, c.remote)
			continue
		}
		if fd != -1 || done || c.want != nil && !errors.Is(err, c.want) ||
			strings.HasPrefix(err.Error(), "sys: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %v: descriptor %d, %v, %v", c.network, c.remote, fd, done, err)
		}
		if after := openDescriptors(); after != before {
			t.Errorf("%s %v: %d descriptors were open, now %d", c.network, c.remote, before, after)
		}
	}
}

// openDescriptors counts those of this process.
func openDescriptors() (n int) {
	for fd := range 1024 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			n++
		}
	}
	return n
}

// TestConnectUnix: done at once, without addresses; TCP's options do no harm.
func TestConnectUnix(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "unix", t.TempDir()+"/s")
	fd, done, err := s.Connect("unix", l.Addr, ConnectOptions{})
	must(t, err)
	defer s.Close(fd)
	if !done {
		must(t, outcome(t, s, fd))
	}
	must(t, s.ConnectError(fd))
	server, peer := accept(t, s, l)
	local, err := s.LocalAddr(fd)
	if (peer != netip.AddrPort{}) || (local != netip.AddrPort{}) || err != nil {
		t.Errorf("peer %v, local address %v, %v", peer, local, err)
	}
	for _, fd := range []int{l.FD, fd, server} {
		must(t, s.SetKeepAlive(fd, 1))
		must(t, s.SetKeepAlive(fd, 0))
	}
	exchange(t, s, fd, server)
	must(t, s.ShutdownWrite(fd))
	if n, err := again(t, func() (int, error) { return s.Read(server, make([]byte, 1)) }); n != 0 || err != nil {
		t.Fatalf("Read at the end: %d, %v", n, err)
	}
	must(t, s.Close(fd))
	if _, err := s.Write(server, []byte("late")); !IsReset(err) {
		t.Errorf("Write to a peer that has gone: %v", err)
	}
}
