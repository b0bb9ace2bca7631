package netsys

import (
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// outcome waits for the end of a Connect.
func outcome(tb testing.TB, s sys.Sockets, fd int) error {
	tb.Helper()
	_, err := again(tb, func() (int, error) { return 0, s.ConnectError(fd) })
	return err
}

func TestConnect(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		for _, l := range []sys.Listener{
			listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{}),
			listen(t, sock, "unix", filepath.Join(t.TempDir(), "s"), sys.ListenOptions{}),
		} {
			fd, done, err := sock.Connect(l.Addr.Network(), l.Addr, sys.ConnectOptions{})
			must(t, err)
			defer sock.Close(fd)
			if done {
				t.Error("done before anybody could know")
			}
			p := s.NewPoller()
			defer p.Close()
			must(t, p.Add(fd, sys.Write, 1))
			n, err := p.Wait(make([]sys.Event, 1), testkit.Patience)
			if n != 1 || err != nil {
				t.Fatalf("no outcome: %d, %v", n, err)
			}
			must(t, sock.ConnectError(fd))
			server := accept(t, sock, l)
			for _, way := range [][2]int{{fd, server}, {server, fd}} {
				if n, err := sock.Write(way[0], []byte("word")); n != 4 || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
				in := make([]byte, 16)
				n, err := again(t, func() (int, error) { return sock.Read(way[1], in) })
				if err != nil || string(in[:n]) != "word" {
					t.Fatalf("Read: %q, %v", in[:n], err)
				}
			}
			local, err := sock.LocalAddr(fd)
			must(t, err)
			if local.IsValid() != (l.Addr.Network() == "tcp") {
				t.Errorf("local address %v over %s", local, l.Addr.Network())
			}
		}
	})
}

func TestConnectFrom(t *testing.T) {
	sock := New().NewSockets()
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	spare := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	must(t, sock.Close(spare.FD)) // its port is free now
	port := spare.Addr.(*net.TCPAddr).AddrPort().Port()
	for _, local := range []netip.AddrPort{
		netip.AddrPortFrom(loopback, 0),
		netip.AddrPortFrom(netip.AddrFrom16(loopback.As16()), 0),
		netip.AddrPortFrom(netip.Addr{}, port),
	} {
		fd, _, err := sock.Connect("tcp", l.Addr, sys.ConnectOptions{Local: local})
		must(t, err)
		defer sock.Close(fd)
		must(t, outcome(t, sock, fd))
		server := accept(t, sock, l)
		got, err := sock.LocalAddr(fd)
		must(t, err)
		c, err := sock.(sockets).conn(server)
		must(t, err)
		if got != c.remote || got.Addr() != loopback || local.Port() != 0 && got.Port() != local.Port() {
			t.Errorf("from %v: local address %v, the server sees %v", local, got, c.remote)
		}
	}
}

// TestConnectFails: the outcome is an error that says why, and not one that means to wait.
func TestConnectFails(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	l, err := sock.Listen("tcp", "127.0.0.1:0", sys.ListenOptions{})
	must(t, err)
	must(t, sock.Close(l.FD))
	for _, c := range []struct {
		remote net.Addr
		o      sys.ConnectOptions
		want   error
	}{
		{l.Addr, sys.ConnectOptions{}, syscall.ECONNREFUSED},
		{l.Addr, sys.ConnectOptions{Local: netip.MustParseAddrPort("192.0.2.1:0")}, syscall.EADDRNOTAVAIL},
		{&net.UnixAddr{Name: filepath.Join(t.TempDir(), "none"), Net: "unix"}, sys.ConnectOptions{}, syscall.ENOENT},
	} {
		fd, done, err := sock.Connect(c.remote.Network(), c.remote, c.o)
		must(t, err)
		if err := outcome(t, sock, fd); done || err != c.want {
			t.Errorf("%v: %v, %#v, want %v", c.remote, done, err, c.want)
		}
		if _, err := sock.Read(fd, make([]byte, 1)); err != c.want {
			t.Errorf("Read: %v", err)
		}
		if err := sock.ShutdownWrite(fd); !sys.IsReset(err) {
			t.Errorf("ShutdownWrite: %v", err)
		}
		must(t, sock.Close(fd))
	}
	if err := connectErrno(syscall.EAGAIN); err == sys.ErrAgain || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a full queue: %#v", err)
	}
}

// TestConnectAbandoned: Close ends an attempt that gets no answer, at once.
func TestConnectAbandoned(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{Backlog: 1}) // nobody accepts; Linux drops what comes then
	var attempts []int
	for range 20 {
		fd, _, err := sock.Connect("tcp", l.Addr, sys.ConnectOptions{})
		must(t, err)
		attempts = append(attempts, fd)
	}
	pending := 0
	for _, fd := range attempts {
		c := s.connOf(t, fd)
		made := sock.ConnectError(fd) != sys.ErrAgain
		if _, err := sock.Read(fd, make([]byte, 1)); err != sys.ErrAgain {
			t.Errorf("Read: %v", err)
		}
		must(t, sock.Close(fd))
		if err := sock.ConnectError(fd); err != syscall.EBADF {
			t.Errorf("ConnectError after Close: %v", err)
		}
		if made {
			continue
		}
		pending++
		testkit.Eventually(t, "the end of the attempt", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.state != connConnecting
		})
	}
	if pending == 0 && runtime.GOOS == "linux" {
		t.Error("every attempt succeeded, with an accept queue of 1")
	}
}

func TestConnectErrors(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	tcp := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	for _, c := range []struct {
		network string
		remote  net.Addr
		o       sys.ConnectOptions
		names   string
	}{
		{"udp", tcp, sys.ConnectOptions{}, `"udp"`},
		{"unix", tcp, sys.ConnectOptions{}, `"unix"`},
		{"tcp6", tcp, sys.ConnectOptions{}, "127.0.0.1"},
		{"tcp4", &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, sys.ConnectOptions{}, "::1"},
		{"tcp", &net.UDPAddr{}, sys.ConnectOptions{}, "*net.UDPAddr"},
		{"tcp", nil, sys.ConnectOptions{}, "<nil>"},
		{"tcp", tcp, sys.ConnectOptions{Local: netip.MustParseAddrPort("[::1]:0")}, "::1"},
		{"tcp", tcp, sys.ConnectOptions{RecvBuffer: -1}, "RecvBuffer -1"},
		{"tcp", tcp, sys.ConnectOptions{KeepAlive: longestKeepAlive + 1}, longestKeepAlive.String()},
		{"tcp", &net.UnixAddr{Name: "x"}, sys.ConnectOptions{}, `"tcp"`},
		{"unix", &net.UnixAddr{}, sys.ConnectOptions{}, "empty"},
		{"unix", &net.UnixAddr{Name: "x"}, sys.ConnectOptions{Local: netip.MustParseAddrPort("127.0.0.1:1")}, "127.0.0.1:1"},
	} {
		fd, done, err := sock.Connect(c.network, c.remote, c.o)
		if err == nil {
			sock.Close(fd)
			t.Errorf("%s %v: no error", c.network, c.remote)
			continue
		}
		if fd != -1 || done || strings.HasPrefix(err.Error(), "sys: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %v: descriptor %d, %v, %v", c.network, c.remote, fd, done, err)
		}
	}
}
