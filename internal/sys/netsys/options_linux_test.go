package netsys

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// option asks the kernel.
func option(tb testing.TB, c syscall.Conn, level, name int) (value int) {
	tb.Helper()
	raw, err := c.SyscallConn()
	must(tb, err)
	must(tb, raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }))
	must(tb, err)
	return value
}

// TestOptionsReachTheKernel: options of a connection, those that it inherits from its listener, and those of an
// attempt.
func TestOptionsReachTheKernel(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{Backlog: 33, KeepAlive: time.Minute, RecvBuffer: 30_000, SendBuffer: 40_000})
	n, err := s.table.lookup(l.FD)
	must(t, err)
	raw, err := n.what.(*listener).ln.(*net.TCPListener).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, err)
		if info.Sacked != 33 { // where the kernel reports the limit of a listening socket
			t.Errorf("backlog %d, want 33", info.Sacked)
		}
	}))
	fd, _, err := sock.Connect("tcp", l.Addr, sys.ConnectOptions{KeepAlive: time.Minute, RecvBuffer: 30_000, SendBuffer: 40_000})
	must(t, err)
	defer sock.Close(fd)
	must(t, outcome(t, sock, fd))
	for _, fd := range []int{fd, accept(t, sock, l)} {
		c := s.connOf(t, fd).tcp()
		if got := option(t, c, unix.IPPROTO_TCP, unix.TCP_NODELAY); got != 1 {
			t.Errorf("TCP_NODELAY is %d", got)
		}
		if r, w := option(t, c, unix.SOL_SOCKET, unix.SO_RCVBUF), option(t, c, unix.SOL_SOCKET, unix.SO_SNDBUF); r != 60_000 || w != 80_000 {
			t.Errorf("buffers of %d and %d, want twice 30,000 and 40,000", r, w)
		}
		expectKeepAlive(t, c, 60)
		must(t, sock.SetKeepAlive(fd, 90*time.Second))
		expectKeepAlive(t, c, 90)
		must(t, sock.SetKeepAlive(fd, 0))
		expectKeepAlive(t, c, 0)
	}
	bare := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{}) // package net would ask every 15 s
	fd, _, err = sock.Connect("tcp", bare.Addr, sys.ConnectOptions{})
	must(t, err)
	defer sock.Close(fd)
	must(t, outcome(t, sock, fd))
	for _, fd := range []int{fd, accept(t, sock, bare)} {
		expectKeepAlive(t, s.connOf(t, fd).tcp(), 0)
	}
}

// expectKeepAlive compares the time before the first question and between two; 0 is no question at all.
func expectKeepAlive(tb testing.TB, c syscall.Conn, seconds int) {
	tb.Helper()
	if on := option(tb, c, unix.SOL_SOCKET, unix.SO_KEEPALIVE); (on != 0) != (seconds != 0) {
		tb.Errorf("SO_KEEPALIVE is %d, want %d seconds", on, seconds)
	}
	if seconds == 0 {
		return
	}
	for _, name := range []int{unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL} {
		if got := option(tb, c, unix.IPPROTO_TCP, name); got != seconds {
			tb.Errorf("option %d is %d, want %d", name, got, seconds)
		}
	}
}
