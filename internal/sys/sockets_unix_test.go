//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/testkit"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// again repeats a call as long as it returns ErrAgain.
func again(tb testing.TB, call func() (int, error)) (n int, err error) {
	tb.Helper()
	testkit.Eventually(tb, "a call that need not wait", func() bool {
		n, err = call()
		return err != ErrAgain
	})
	return n, err
}

func listen(tb testing.TB, s Sockets, network, address string) Listener {
	tb.Helper()
	l, err := s.Listen(network, address, ListenOptions{})
	must(tb, err)
	tb.Cleanup(func() { s.Close(l.FD) })
	return l
}

// connected is an accepted descriptor and its client.
func connected(tb testing.TB, s Sockets) (fd int, peer netip.AddrPort, client *net.TCPConn) {
	tb.Helper()
	l := listen(tb, s, "tcp", "127.0.0.1:0")
	c, err := net.Dial("tcp", l.Addr.String())
	must(tb, err)
	tb.Cleanup(func() { c.Close() })
	fd, err = again(tb, func() (n int, err error) {
		n, peer, err = s.Accept(l.FD)
		return n, err
	})
	must(tb, err)
	tb.Cleanup(func() { s.Close(fd) })
	return fd, peer, c.(*net.TCPConn)
}

func TestListen(t *testing.T) {
	for _, c := range []struct {
		network, address string
		dial             []string // what reaches it, with the port to be added
		refuses          string
	}{
		{"tcp", "127.0.0.1:0", []string{"127.0.0.1"}, ""},
		{"tcp4", "127.0.0.1:0", []string{"127.0.0.1"}, ""},
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
			s := NewSockets()
			l := listen(t, s, c.network, c.address)
			port := l.Addr.(*net.TCPAddr).Port
			if port == 0 {
				t.Fatalf("no port in %v", l.Addr)
			}
			for _, host := range c.dial {
				if host == "::1" && !haveIPv6() {
					continue
				}
				client, err := net.DialTCP("tcp", nil, resolve(t, host, port))
				must(t, err)
				defer client.Close()
				var peer netip.AddrPort
				fd, err := again(t, func() (n int, err error) {
					n, peer, err = s.Accept(l.FD)
					return n, err
				})
				must(t, err)
				defer s.Close(fd)
				if want := client.LocalAddr().(*net.TCPAddr).AddrPort(); peer != want {
					t.Errorf("peer %v, want %v", peer, want)
				}
				local, err := s.LocalAddr(fd)
				must(t, err)
				if want := client.RemoteAddr().(*net.TCPAddr).AddrPort(); local != want {
					t.Errorf("local address %v, want %v", local, want)
				}
			}
			if c.refuses != "" {
				if client, err := net.DialTCP("tcp", nil, resolve(t, c.refuses, port)); err == nil {
					client.Close()
					t.Errorf("%s reaches it", c.refuses)
				}
			}
		})
	}
}

func resolve(tb testing.TB, host string, port int) *net.TCPAddr {
	tb.Helper()
	a, err := net.ResolveIPAddr("ip", host)
	must(tb, err)
	return &net.TCPAddr{IP: a.IP, Port: port}
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
	s := NewSockets()
	busy := listen(t, s, "tcp", "127.0.0.1:0").Addr.String()
	for _, c := range []struct {
		network, address string
		o                ListenOptions
		want             error
		names            string
	}{
		{"tcp", busy, ListenOptions{}, syscall.EADDRINUSE, "in use"},
		{"tcp4", busy, ListenOptions{}, syscall.EADDRINUSE, "in use"},
		{"tcp", "192.0.2.1:0", ListenOptions{}, syscall.EADDRNOTAVAIL, "bind"},
		{"udp", "127.0.0.1:0", ListenOptions{}, nil, `"udp"`},
		{"tcp", "127.0.0.1", ListenOptions{}, nil, "127.0.0.1"},
		{"tcp", "127.0.0.1:99999", ListenOptions{}, nil, "99999"},
		{"tcp6", "127.0.0.1:0", ListenOptions{}, nil, "127.0.0.1"},
		{"tcp4", "[::1]:0", ListenOptions{}, nil, "::1"},
		{"tcp", "127.0.0.1:0", ListenOptions{Backlog: -1}, nil, "-1"},
	} {
		before := openDescriptors()
		l, err := s.Listen(c.network, c.address, c.o)
		if err == nil {
			s.Close(l.FD)
			t.Errorf("%s %s: no error", c.network, c.address)
			continue
		}
		if after := openDescriptors(); after != before {
			t.Errorf("%s %s: %d descriptors were open, now %d", c.network, c.address, before, after)
		}
		if l.FD != -1 || c.want != nil && !errors.Is(err, c.want) ||
			strings.HasPrefix(err.Error(), "sys: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %s: descriptor %d, %v", c.network, c.address, l.FD, err)
		}
	}
}

// TestListenAgain: a server that restarts gets its port back at once, although
// connections of the old one linger in TIME_WAIT.
func TestListenAgain(t *testing.T) {
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{})
	must(t, err)
	c, err := net.Dial("tcp", l.Addr.String())
	must(t, err)
	defer c.Close()
	fd, err := again(t, func() (n int, err error) {
		n, _, err = s.Accept(l.FD)
		return n, err
	})
	must(t, err)
	must(t, s.Close(fd)) // the server closes first
	must(t, s.Close(l.FD))
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	must(t, c.Close())
	listen(t, s, "tcp", l.Addr.String())
}

func TestBacklog(t *testing.T) {
	s := NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{Backlog: 8})
	must(t, err)
	defer s.Close(l.FD)
	for range 8 {
		c, err := net.DialTimeout("tcp", l.Addr.String(), testkit.Patience)
		must(t, err)
		defer c.Close()
	}
}

// TestNewSocket: accepted and listening sockets do not block, are not inherited
// by other processes, and send small packets without delay.
func TestNewSocket(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	if _, _, err := s.Accept(l.FD); err != ErrAgain {
		t.Errorf("Accept without a connection: %v", err)
	}
	fd, _, _ := connected(t, s)
	for _, fd := range []int{l.FD, fd} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("descriptor %d is blocking (%v)", fd, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d is inherited (%v)", fd, err)
		}
	}
	expectNoDelay(t, fd)
}

func expectNoDelay(t *testing.T, fd int) {
	t.Helper()
	if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || v == 0 {
		t.Errorf("TCP_NODELAY = %d, %v", v, err)
	}
}

func TestReadWrite(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	b := make([]byte, 64)
	if n, err := s.Read(fd, b); n != 0 || err != ErrAgain {
		t.Fatalf("Read of nothing: %d, %v", n, err)
	}
	if n, err := s.Read(fd, nil); n != 0 || err != nil {
		t.Fatalf("Read into nothing: %d, %v", n, err)
	}
	if n, err := s.Write(fd, nil); n != 0 || err != nil {
		t.Fatalf("Write of nothing: %d, %v", n, err)
	}
	_, err := client.Write([]byte("question"))
	must(t, err)
	n, err := again(t, func() (int, error) { return s.Read(fd, b) })
	if err != nil || string(b[:n]) != "question" {
		t.Fatalf("Read: %q, %v", b[:n], err)
	}
	if n, err := s.Write(fd, []byte("answer")); n != 6 || err != nil {
		t.Fatalf("Write: %d, %v", n, err)
	}
	must(t, s.ShutdownWrite(fd))
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Fatalf("the peer read %q, %v", got, err)
	}
	must(t, client.CloseWrite())
	if n, err := again(t, func() (int, error) { return s.Read(fd, b) }); n != 0 || err != nil {
		t.Fatalf("Read at the end: %d, %v", n, err)
	}
	if _, err := s.Write(fd, []byte("late")); !IsReset(err) {
		t.Fatalf("Write after ShutdownWrite: %v", err)
	}
}

// TestPeek: a look leaves the bytes where they are, and sees the end of the stream and its errors as a read does.
func TestPeek(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	b := make([]byte, 64)
	if n, err := s.Peek(fd, b); n != 0 || err != ErrAgain {
		t.Fatalf("Peek at nothing: %d, %v", n, err)
	}
	if n, err := s.Peek(fd, nil); n != 0 || err != nil {
		t.Fatalf("Peek into nothing: %d, %v", n, err)
	}
	_, err := client.Write([]byte("question"))
	must(t, err)
	for _, want := range []string{"question", "question", "que"} {
		n, err := again(t, func() (int, error) { return s.Peek(fd, b[:len(want)]) })
		if err != nil || string(b[:n]) != want {
			t.Fatalf("Peek: %q, %v, want %q", b[:n], err, want)
		}
	}
	must(t, client.CloseWrite())
	if n, err := s.Read(fd, b); err != nil || string(b[:n]) != "question" {
		t.Fatalf("Read after Peek: %q, %v", b[:n], err)
	}
	if n, err := again(t, func() (int, error) { return s.Peek(fd, b) }); n != 0 || err != nil {
		t.Fatalf("Peek at the end: %d, %v", n, err)
	}
	broken, _, client := connected(t, s)
	must(t, client.SetLinger(0))
	must(t, client.Close())
	if _, err := again(t, func() (int, error) { return s.Peek(broken, b) }); !IsReset(err) {
		t.Fatalf("Peek after a reset: %v", err)
	}
}

func TestWriteUntilFull(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	chunk := bytes.Repeat([]byte("eddy"), 16<<10)
	sent := 0
	short := false
	for {
		n, err := s.Write(fd, chunk)
		sent += n
		if err == ErrAgain {
			break
		}
		must(t, err)
		short = short || n < len(chunk)
	}
	if !short {
		t.Log("the socket filled up between two writes")
	}
	if n, err := s.Writev(fd, [][]byte{chunk, chunk}); n != 0 || err != ErrAgain {
		t.Fatalf("Writev into a full socket: %d, %v", n, err)
	}
	must(t, s.ShutdownWrite(fd))
	got, err := io.Copy(io.Discard, client)
	if err != nil || got != int64(sent) {
		t.Fatalf("the peer read %d of %d bytes, %v", got, sent, err)
	}
}

// TestAbort: an aborted socket keeps nothing after its Close. The peer reads a reset, however much it has not read.
func TestAbort(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	chunk := bytes.Repeat([]byte("eddy"), 16<<10)
	for {
		if _, err := s.Write(fd, chunk); err == ErrAgain {
			break
		} else {
			must(t, err)
		}
	}
	must(t, s.Abort(fd))
	must(t, s.Close(fd))
	if _, err := io.Copy(io.Discard, client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer's stream ended with %v", err)
	}
}

func TestReadAfterReset(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	must(t, client.SetLinger(0))
	must(t, client.Close())
	_, err := again(t, func() (int, error) { return s.Read(fd, make([]byte, 1)) })
	if !IsReset(err) || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("Read after a reset: %v", err)
	}
	if _, err := s.Write(fd, []byte{1}); !IsReset(err) { // and no SIGPIPE has ended the test
		t.Fatalf("Write after a reset: %v", err)
	}
}

func TestWritev(t *testing.T) {
	many := make([][]byte, 3*maxVectors)
	for i := range many {
		many[i] = []byte{byte(i), byte(i >> 8)}
	}
	for _, c := range []struct {
		name string
		bufs [][]byte
	}{
		{"none", nil},
		{"only empty ones", [][]byte{nil, {}}},
		{"one", [][]byte{[]byte("one")}},
		{"empty between", [][]byte{[]byte("a"), nil, []byte("bc"), {}, []byte("d")}},
		{"more than one call takes", many},
		{"empty ones in front", append(make([][]byte, 2*maxVectors), []byte("end"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewSockets()
			fd, _, client := connected(t, s)
			want := bytes.Join(c.bufs, nil)
			for bufs, left := c.bufs, len(want); left > 0; {
				n, err := s.Writev(fd, bufs)
				must(t, err)
				if n == 0 {
					t.Fatalf("Writev makes no progress with %d bytes left", left)
				}
				left -= n
				bufs = skip(bufs, n)
			}
			if n, err := s.Writev(fd, nil); n != 0 || err != nil {
				t.Fatalf("Writev of nothing: %d, %v", n, err)
			}
			must(t, s.ShutdownWrite(fd))
			if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("the peer read %d bytes, want %d, %v", len(got), len(want), err)
			}
		})
	}
}

// skip is bufs without the first n bytes.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs = append([][]byte{bufs[0][n:]}, bufs[1:]...)
	}
	return bufs
}

func TestReserve(t *testing.T) {
	s := NewSockets()
	fd, err := s.OpenReserve()
	must(t, err)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the reserve is inherited (%v)", err)
	}
	must(t, s.Close(fd))
	if err := s.Close(fd); !errors.Is(err, syscall.EBADF) {
		t.Errorf("second Close: %v", err)
	}
}

// TestLeft: Left goes down with each opened descriptor, to 0 at the limit. A limit that has changed is soon noticed, and at once where few are left.
func TestLeft(t *testing.T) {
	s := NewSockets()
	fd, err := s.OpenReserve()
	must(t, err)
	defer s.Close(fd)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if left := s.Left(fd); left <= 0 || uint64(left+fd+1) != min(uint64(limit.Cur), math.MaxInt32) {
		t.Errorf("%d left behind descriptor %d, limit %d", left, fd, limit.Cur)
	}
	most := s.Left(fd) + fd + 1
	s.(*sockets).limit.most = most * 2 // as if it had been more
	if left := s.Left(most - 1); left != most {
		t.Errorf("%d left behind the last descriptor but %d, want what was known", left, most)
	}
	for range limitAsks {
		_ = s.Left(fd)
	}
	if left := s.Left(fd); left+fd+1 != most {
		t.Errorf("%d left behind descriptor %d, limit %d, after %d times", left, fd, most, limitAsks)
	}
	s.(*sockets).limit.most = most / 2 // as if it had been less
	if left := s.Left(most/2 - 1); left+most/2 != most {
		t.Errorf("%d left where there were few, limit %d", left, most)
	}
}

func TestBadDescriptor(t *testing.T) {
	s := NewSockets()
	_, _, accept := s.Accept(-1)
	_, local := s.LocalAddr(-1)
	_, read := s.Read(-1, make([]byte, 1))
	_, write := s.Write(-1, make([]byte, 1))
	_, writev := s.Writev(-1, [][]byte{{1}})
	for name, err := range map[string]error{
		"Accept": accept, "LocalAddr": local, "Read": read, "Write": write, "Writev": writev,
		"SetKeepAlive": s.SetKeepAlive(-1, 1), "ConnectError": s.ConnectError(-1),
		"ShutdownWrite": s.ShutdownWrite(-1), "Abort": s.Abort(-1), "Close": s.Close(-1),
	} {
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	s := NewSockets()
	l := listen(t, s, "tcp", "127.0.0.1:0")
	fd, _, client := connected(t, s)
	go io.Copy(io.Discard, client)
	b := make([]byte, 16)
	bufs := [][]byte{b, b, b}
	for name, f := range map[string]func(){
		"Read":      func() { s.Read(fd, b) },
		"Write":     func() { s.Write(fd, b) },
		"Writev":    func() { s.Writev(fd, bufs) },
		"Accept":    func() { s.Accept(l.FD) },
		"LocalAddr": func() { s.LocalAddr(fd) },
		"Unacked":   func() { s.Unacked(fd) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 && allocationFree {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
