package netsys

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestListen(t *testing.T) {
	sock := New().NewSockets()
	for _, c := range []struct {
		network, address string
		dial             []string
		refuses          string
	}{
		{"tcp", "127.0.0.1:0", []string{"127.0.0.1"}, ""},
		{"tcp4", ":0", []string{"127.0.0.1"}, "::1"},
		{"tcp", "localhost:0", []string{"localhost"}, ""},
		{"tcp", ":0", []string{"127.0.0.1", "::1"}, ""},
		{"tcp", "[::1]:0", []string{"::1"}, "127.0.0.1"},
		{"tcp6", ":0", []string{"::1"}, "127.0.0.1"},
		{"tcp", "0.0.0.0:0", []string{"127.0.0.1"}, "::1"},
	} {
		t.Run(c.network+" "+c.address, func(t *testing.T) {
			if (strings.Contains(c.address, "::") || c.network == "tcp6") && !haveIPv6() {
				t.Skip("no IPv6 here")
			}
			l := listen(t, sock, c.network, c.address, sys.ListenOptions{})
			port := l.Addr.(*net.TCPAddr).Port
			for _, host := range c.dial {
				if host == "::1" && !haveIPv6() {
					continue
				}
				ip, err := net.ResolveIPAddr("ip", host)
				must(t, err)
				client, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: ip.IP, Port: port})
				must(t, err)
				defer client.Close()
				var peer netip.AddrPort
				fd, err := again(t, func() (n int, err error) {
					n, peer, err = sock.Accept(l.FD)
					return n, err
				})
				must(t, err)
				defer sock.Close(fd)
				local, err := sock.LocalAddr(fd)
				must(t, err)
				if want := client.LocalAddr().(*net.TCPAddr).AddrPort(); peer != want {
					t.Errorf("peer %v, want %v", peer, want)
				}
				if want := client.RemoteAddr().(*net.TCPAddr).AddrPort(); local != want {
					t.Errorf("local address %v, want %v", local, want)
				}
			}
			if c.refuses != "" {
				client, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(c.refuses), Port: port})
				if err == nil {
					client.Close()
					t.Errorf("%s reaches it", c.refuses)
				}
			}
		})
	}
}

func haveIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func TestListenErrors(t *testing.T) {
	sock := New().NewSockets()
	busy := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{}).Addr.String()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, nil, 0o600))
	listen(t, sock, "unix", filepath.Join(dir, "busy"), sys.ListenOptions{})
	for _, c := range []struct {
		network, address string
		o                sys.ListenOptions
		want             error
		names            string
	}{
		{"tcp", busy, sys.ListenOptions{}, syscall.EADDRINUSE, "in use"},
		{"tcp", "192.0.2.1:0", sys.ListenOptions{}, syscall.EADDRNOTAVAIL, "bind"},
		{"udp", "127.0.0.1:0", sys.ListenOptions{}, nil, `"udp"`},
		{"tcp", "127.0.0.1", sys.ListenOptions{}, nil, "127.0.0.1"},
		{"tcp", "127.0.0.1:99999", sys.ListenOptions{}, nil, "99999"},
		{"tcp6", "127.0.0.1:0", sys.ListenOptions{}, nil, "127.0.0.1"},
		{"tcp4", "[::1]:0", sys.ListenOptions{}, nil, "::1"},
		{"tcp", "127.0.0.1:0", sys.ListenOptions{Backlog: -1}, nil, "-1"},
		{"tcp", "127.0.0.1:0", sys.ListenOptions{RecvBuffer: -1}, nil, "RecvBuffer -1"},
		{"tcp", "127.0.0.1:0", sys.ListenOptions{SendBuffer: -2}, nil, "SendBuffer -2"},
		{"tcp", "127.0.0.1:0", sys.ListenOptions{KeepAlive: longestKeepAlive + 1}, nil, longestKeepAlive.String()},
		{"unix", "", sys.ListenOptions{}, nil, "empty"},
		{"unix", filepath.Join(dir, "x"), sys.ListenOptions{ReusePort: true}, nil, "ReusePort"},
		{"unix", filepath.Join(dir, "busy"), sys.ListenOptions{}, syscall.EADDRINUSE, "answers"},
		{"unix", plain, sys.ListenOptions{}, syscall.EADDRINUSE, "not a socket"},
		{"unix", filepath.Join(dir, "none", "x"), sys.ListenOptions{}, syscall.ENOENT, "no such file"},
	} {
		l, err := sock.Listen(c.network, c.address, c.o)
		if err == nil {
			sock.Close(l.FD)
			t.Errorf("%s %s: no error", c.network, c.address)
			continue
		}
		if l.FD != -1 || c.want != nil && !errors.Is(err, c.want) ||
			strings.HasPrefix(err.Error(), "sys: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %s: descriptor %d, %v", c.network, c.address, l.FD, err)
		}
	}
	if _, err := os.Stat(plain); err != nil {
		t.Errorf("the plain file is gone: %v", err)
	}
}

// TestUnixSocketFile: a dead server's file is replaced, our file is removed with its listener, and another server's
// file stays.
func TestUnixSocketFile(t *testing.T) {
	sock := New().NewSockets()
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	l := listen(t, sock, "unix", path, sys.ListenOptions{})
	must(t, sock.Close(l.FD))
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a closed listener: %v", err)
	}
	l = listen(t, sock, "unix", path, sys.ListenOptions{})
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, sock.Close(l.FD))
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("another one's file: %v", err)
	}
}

// TestAddressIsFreeAfterClose, also of a listener whose goroutine waits for connections.
func TestAddressIsFreeAfterClose(t *testing.T) {
	sock := New().NewSockets()
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	for range 50 {
		if _, _, err := sock.Accept(l.FD); err != sys.ErrAgain {
			t.Fatal(err)
		}
		must(t, sock.Close(l.FD))
		l = listen(t, sock, "tcp", l.Addr.String(), sys.ListenOptions{})
	}
}

// TestCloseResetsWhatNobodyAccepted: as a kernel does with its queue.
func TestCloseResetsWhatNobodyAccepted(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	if _, _, err := sock.Accept(l.FD); err != sys.ErrAgain { // starts the goroutine
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr.String())
	must(t, err)
	defer c.Close()
	n, err := s.table.lookup(l.FD)
	must(t, err)
	testkit.Eventually(t, "a connection ahead", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.what.(*listener).queue) == 1
	})
	must(t, sock.Close(l.FD))
	must(t, c.SetDeadline(time.Now().Add(testkit.Patience)))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer read %v", err)
	}
}

// scarce is a listener whose connections cost descriptors that are not always there.
type scarce struct {
	net.Listener
	mu   sync.Mutex
	free int
}

func (l *scarce) Accept() (net.Conn, error) {
	l.mu.Lock()
	if l.free == 0 {
		l.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	l.free--
	l.mu.Unlock()
	return l.Listener.Accept()
}

func (l *scarce) set(free int) {
	l.mu.Lock()
	l.free = free
	l.mu.Unlock()
}

// TestAcceptWithoutDescriptors: the error is returned once for each attempt. The next call gets the one connection for
// which the caller has given up a descriptor. A poller that is asked again tries again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln := &scarce{Listener: inner}
	l, err := s.newListener(ln, nil)
	must(t, err)
	defer sock.Close(l.fd)
	p := s.NewPoller()
	defer p.Close()
	must(t, p.Add(l.fd, sys.Read, 1))
	clients := make([]net.Conn, 4)
	for i := range clients {
		clients[i], err = net.Dial("tcp", inner.Addr().String())
		must(t, err)
		defer clients[i].Close()
	}
	ready := func() bool {
		n, err := p.Wait(make([]sys.Event, 1), time.Second)
		must(t, err)
		return n == 1
	}
	outcome := func() (fd int, err error) { // of an attempt, which a busy machine may finish after the call that began it
		testkit.Eventually(t, "an outcome", func() bool {
			fd, _, err = sock.Accept(l.fd)
			return err != sys.ErrAgain
		})
		return fd, err
	}
	limited := func() {
		t.Helper()
		testkit.Eventually(t, "readiness", ready)
		if _, _, err := sock.Accept(l.fd); err != syscall.EMFILE || !sys.IsDescriptorLimit(err) {
			t.Fatalf("Accept: %#v", err)
		}
	}
	limited()
	for range 2 {
		if _, err := outcome(); err != syscall.EMFILE { // one attempt each
			t.Fatalf("Accept right after the error: %v", err)
		}
	}
	for range 2 { // one gives way to the next
		ln.set(1)
		fd, err := outcome()
		must(t, err)
		must(t, sock.Close(fd))
	}
	if _, err := clients[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the peer that was shed read %v", err)
	}
	if _, err := outcome(); err != syscall.EMFILE {
		t.Fatalf("Accept without a descriptor: %v", err)
	}
	must(t, p.Modify(l.fd, sys.None, 1))
	if n, err := p.Wait(make([]sys.Event, 1), 5*time.Millisecond); n != 0 || err != nil {
		t.Fatalf("a paused listener: %d, %v", n, err)
	}
	must(t, p.Modify(l.fd, sys.Read, 1))
	limited()
	ln.set(100)
	must(t, p.Modify(l.fd, sys.Read, 1))
	for range 2 {
		testkit.Eventually(t, "readiness", ready)
		accept(t, sock, sys.Listener{FD: l.fd})
	}
	if _, _, err := sock.Accept(l.fd); err != sys.ErrAgain {
		t.Errorf("Accept with nothing to accept: %v", err)
	}
}

// TestAcceptAfterAnErrorDoesNotWaitLong: Accept returns soon when there is nothing to accept.
func TestAcceptAfterAnErrorDoesNotWaitLong(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln := &scarce{Listener: inner}
	l, err := s.newListener(ln, nil)
	must(t, err)
	defer sock.Close(l.fd)
	_, err = again(t, func() (int, error) { _, _, err := sock.Accept(l.fd); return 0, err })
	if err != syscall.EMFILE {
		t.Fatal(err)
	}
	ln.set(100)
	start := time.Now()
	if _, _, err := sock.Accept(l.fd); err != sys.ErrAgain {
		t.Errorf("Accept: %v", err)
	}
	if took := time.Since(start); took < acceptPatience || took > testkit.Patience/2 {
		t.Errorf("it took %v", took)
	}
	for range 3 { // the attempt that was waited for goes on as the ordinary goroutine
		c, err := net.Dial("tcp", inner.Addr().String())
		must(t, err)
		defer c.Close()
		accept(t, sock, sys.Listener{FD: l.fd})
	}
}

// TestAcceptAhead: at most acceptAhead connections are taken from the kernel's queue before Accept wants them.
func TestAcceptAhead(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln := &scarce{Listener: inner, free: 1000}
	l, err := s.newListener(ln, nil)
	must(t, err)
	defer sock.Close(l.fd)
	const count = 2*acceptAhead + 5
	for range count {
		c, err := net.Dial("tcp", inner.Addr().String())
		must(t, err)
		defer c.Close()
	}
	if _, _, err := sock.Accept(l.fd); err != sys.ErrAgain { // starts the goroutine
		t.Fatal(err)
	}
	testkit.Eventually(t, "its end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.accepting
	})
	if len(l.queue) != acceptAhead || ln.free != 1000-acceptAhead {
		t.Errorf("%d connections ahead, %d taken, want %d", len(l.queue), 1000-ln.free, acceptAhead)
	}
	for range count {
		accept(t, sock, sys.Listener{FD: l.fd})
	}
}

// TestReusePort: several listeners, one address, where the system can; a clear refusal elsewhere.
func TestReusePort(t *testing.T) {
	sock := New().NewSockets()
	first, err := sock.Listen("tcp", "127.0.0.1:0", sys.ListenOptions{ReusePort: true})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	defer sock.Close(first.FD)
	listen(t, sock, "tcp", first.Addr.String(), sys.ListenOptions{ReusePort: true})
	if l, err := sock.Listen("tcp", first.Addr.String(), sys.ListenOptions{}); err == nil {
		sock.Close(l.FD)
		t.Error("the address is shared with one that did not ask for it")
	}
}
