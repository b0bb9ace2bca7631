package sys

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConnectUnreachable: TCP has no route to a group of hosts.
func TestConnectUnreachable(t *testing.T) {
	s := NewSockets()
	remote := &net.TCPAddr{IP: net.IPv4(224, 0, 0, 1), Port: 9}
	fd, _, err := s.Connect("tcp", remote, ConnectOptions{})
	if !errors.Is(err, syscall.ENETUNREACH) || !IsReset(err) || fd != -1 {
		t.Fatalf("descriptor %d, %v", fd, err)
	}
}

// TestConnectFromAnother: the source is one of the machine's own addresses, and
// its port is chosen by connect, so that it is taken only towards this peer.
func TestConnectFromAnother(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	source := netip.AddrFrom4([4]byte{127, 0, 0, 2})
	fd := dial(t, s, "tcp", l.Addr, ConnectOptions{Local: netip.AddrPortFrom(source, 0)})
	if _, peer := accept(t, s, l); peer.Addr() != source {
		t.Errorf("the server sees %v, want %v", peer, source)
	}
	if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT); v != 1 || err != nil {
		t.Errorf("IP_BIND_ADDRESS_NO_PORT = %d, %v", v, err)
	}
}

// TestConnectUnixFull: a unix listener whose queue is full fails the connection
// at once; nothing would tell when to try again.
func TestConnectUnixFull(t *testing.T) {
	s := NewSockets()
	l, err := s.Listen("unix", t.TempDir()+"/s", ListenOptions{Backlog: 1})
	must(t, err)
	defer s.Close(l.FD)
	for range 10 {
		fd, done, err := s.Connect("unix", l.Addr, ConnectOptions{})
		if err == nil {
			if !done {
				t.Fatal("a unix connection takes its time")
			}
			defer s.Close(fd)
			continue
		}
		if err == ErrAgain || !errors.Is(err, syscall.EAGAIN) || fd != -1 || !strings.Contains(err.Error(), "queue is full") {
			t.Fatalf("descriptor %d, %v", fd, err)
		}
		return
	}
	t.Fatal("a queue of 1 took ten connections")
}

func TestAbstractSocket(t *testing.T) {
	s := NewSockets()
	name := "@eddy" + strings.ReplaceAll(t.TempDir(), "/", "-")
	l := listen(t, s, "unix", name)
	if _, err := s.Listen("unix", name, ListenOptions{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	fd := dial(t, s, "unix", l.Addr, ConnectOptions{})
	server, _ := accept(t, s, l)
	exchange(t, s, fd, server)
}
