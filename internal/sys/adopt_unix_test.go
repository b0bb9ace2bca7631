//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenOn: a listener of package net goes on under its address and ends with its new descriptor, its socket file too.
func TestListenOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, c := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", path}} {
		ln, err := net.Listen(c.network, c.address)
		must(t, err)
		s := NewSockets()
		l, err := s.Listen("", "", ListenOptions{On: ln, SendBuffer: 64 << 10})
		must(t, err)
		if l.Addr.String() != ln.Addr().String() {
			t.Errorf("address %v, want %v", l.Addr, ln.Addr())
		}
		client, err := net.Dial(c.network, ln.Addr().String())
		must(t, err)
		fd, err := again(t, func() (int, error) {
			fd, _, err := s.Accept(l.FD)
			return fd, err
		})
		must(t, err)
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); c.network == "tcp" && (err != nil || n < 64<<10 || n > 256<<10) {
			t.Errorf("SendBuffer is %d, %v", n, err)
		}
		if _, err := s.Write(fd, []byte("hello")); err != nil {
			t.Error(err)
		}
		must(t, s.Close(fd))
		if got, err := io.ReadAll(client); string(got) != "hello" || err != nil {
			t.Errorf("the client read %q, %v", got, err)
		}
		must(t, client.Close())
		must(t, s.Close(l.FD))
		if late, err := net.Dial(c.network, ln.Addr().String()); err == nil {
			late.Close()
			t.Errorf("%s: somebody listens after Close", c.network)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener after Close: %v", c.network, err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file after Close: %v", err)
	}
}

// TestListenOnOthers: a listener whose Accept may do more than the system's is refused, and stays open.
func TestListenOnOthers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	l, err := NewSockets().Listen("", "", ListenOptions{On: struct{ *net.TCPListener }{ln.(*net.TCPListener)}})
	if l.FD != -1 || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "has no descriptor") {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Errorf("the refused listener: %v", err)
	}
}

// TestTake: a connection of package net goes on under its new descriptor; any other stays with its owner.
func TestTake(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer client.Close()
	c, err := ln.Accept()
	must(t, err)
	s := NewSockets()
	must(t, c.(*net.TCPConn).SetLinger(5))
	must(t, c.(*net.TCPConn).SetNoDelay(false))
	fd, peer, err := s.Take(c)
	must(t, err)
	if l, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LINGER); l != 0 || err != nil { // l_onoff comes first
		t.Errorf("it lingers: %d, %v", l, err)
	}
	expectNoDelay(t, fd)
	if peer.String() != client.LocalAddr().String() {
		t.Errorf("peer %v, want %v", peer, client.LocalAddr())
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old connection: %v", err)
	}
	if _, err := s.Read(fd, make([]byte, 1)); err != ErrAgain {
		t.Errorf("nothing has come: %v", err)
	}
	if _, err := s.Write(fd, []byte("hello")); err != nil {
		t.Error(err)
	}
	must(t, s.Close(fd))
	if got, err := io.ReadAll(client); string(got) != "hello" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
	near, far := net.Pipe()
	defer far.Close()
	if fd, _, err := s.Take(near); fd != -1 || !errors.Is(err, errors.ErrUnsupported) || near.Close() != nil {
		t.Errorf("a pipe: %d, %v", fd, err)
	}
}
