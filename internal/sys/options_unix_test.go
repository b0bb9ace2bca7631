//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func option(tb testing.TB, fd, level, name int) int {
	tb.Helper()
	v, err := unix.GetsockoptInt(fd, level, name)
	must(tb, err)
	return v
}

// TestKeepAlive: set by listener, connection or hand, in whole seconds rounded
// up; accepted connections inherit it.
func TestKeepAlive(t *testing.T) {
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{KeepAlive: 7 * time.Second})
	must(t, err)
	defer s.Close(l.FD)
	client := dial(t, s, "tcp", l.Addr, ConnectOptions{KeepAlive: 8*time.Second + 1})
	server, _ := accept(t, s, l)
	plain := dial(t, s, "tcp", l.Addr, ConnectOptions{})
	check := func(what string, fd int, on bool, seconds int) {
		t.Helper()
		if got := option(t, fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0; got != on {
			t.Errorf("%s: SO_KEEPALIVE is %v", what, got)
		}
		for _, name := range keepAliveTimes() {
			if got := option(t, fd, unix.IPPROTO_TCP, name); on && got != seconds {
				t.Errorf("%s: option %d is %d, want %d", what, name, got, seconds)
			}
		}
	}
	check("accepted", server, true, 7)
	check("connected", client, true, 9)
	check("without", plain, false, 0)
	must(t, s.SetKeepAlive(plain, 1))
	check("rounded up", plain, true, 1)
	must(t, s.SetKeepAlive(plain, 0))
	check("switched off", plain, false, 0)
	must(t, s.SetKeepAlive(plain, longestKeepAlive))
	check("longest", plain, true, int(longestKeepAlive/time.Second))
	if err := s.SetKeepAlive(plain, longestKeepAlive+1); err == nil || !strings.Contains(err.Error(), longestKeepAlive.String()) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestBuffers: set before the connection exists, inherited by accepted ones.
func TestBuffers(t *testing.T) {
	const size = 32 << 10 // systems may double it for their overhead
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{RecvBuffer: size, SendBuffer: size})
	must(t, err)
	defer s.Close(l.FD)
	client := dial(t, s, "tcp", l.Addr, ConnectOptions{RecvBuffer: 2 * size, SendBuffer: 2 * size})
	server, _ := accept(t, s, l)
	for _, name := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		a, b := option(t, server, unix.SOL_SOCKET, name), option(t, client, unix.SOL_SOCKET, name)
		if a < size || a > 2*size || b < 2*size || b > 4*size {
			t.Errorf("option %d is %d at the server and %d at the client", name, a, b)
		}
	}
	for _, o := range []ListenOptions{{RecvBuffer: -5}, {SendBuffer: -5}, {KeepAlive: longestKeepAlive + 1}} {
		if l, err := s.Listen("tcp", "127.0.0.1:0", o); err == nil {
			s.Close(l.FD)
			t.Errorf("%+v was taken", o)
		} else if !strings.Contains(err.Error(), "-5") && !strings.Contains(err.Error(), longestKeepAlive.String()) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestReusePort: two sockets of one address share its connections, where the
// system does that; without the option on both, the second is refused.
func TestReusePort(t *testing.T) {
	a, b := NewSockets(), NewSockets()
	la, err := a.Listen("tcp", "127.0.0.1:0", ListenOptions{ReusePort: true})
	must(t, err)
	defer a.Close(la.FD)
	address := la.Addr.String()
	if l, err := b.Listen("tcp", address, ListenOptions{}); err == nil {
		b.Close(l.FD)
		t.Error("a listener without the option joined")
	}
	lb, err := b.Listen("tcp", address, ListenOptions{ReusePort: true})
	must(t, err)
	defer b.Close(lb.FD)
	const count = 128
	for range count {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
	}
	got := [2]int{}
	_, err = again(t, func() (int, error) {
		for i, l := range []Listener{la, lb} {
			for {
				fd, _, err := a.Accept(l.FD)
				if err == ErrAgain {
					break
				}
				must(t, err)
				must(t, a.Close(fd))
				got[i]++
			}
		}
		if got[0]+got[1] < count {
			return 0, ErrAgain
		}
		return 0, nil
	})
	must(t, err)
	if ReusePortBalances && (got[0] == 0 || got[1] == 0) {
		t.Errorf("of %d connections the listeners got %d and %d", count, got[0], got[1])
	}
}
