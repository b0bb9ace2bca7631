package chaos

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEcho is a server that sends back what it gets, and its proxy.
func newEcho(t *testing.T) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
				_ = c.(*net.TCPConn).CloseWrite()
			})
		}
	})
	p, err := New(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		_ = ln.Close()
		serving.Wait()
	})
	return p
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return c.(*net.TCPConn)
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func torn(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
}

// refused makes a connection that is reset at once, perhaps before it is known here.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		_, err = io.ReadAll(c)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
}

// TestProxyIsTransparent: bytes, their order and the end of each direction pass, in pieces too.
func TestProxyIsTransparent(t *testing.T) {
	p := newEcho(t)
	for _, piece := range []int{0, 7, 1} {
		p.Shred(piece)
		sent := bytes.Repeat([]byte("0123456789"), 5000)
		if piece == 1 {
			sent = sent[:3000]
		}
		c := dial(t, p)
		go func() {
			_, _ = c.Write(sent)
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("pieces of %d: %d bytes of %d, %v", piece, len(got), len(sent), err)
		}
	}
	testkit.Eventually(t, "all connections to end", func() bool { return p.Stats().Open == 0 })
	if s := p.Stats(); s.Accepted != 3 || s.Cut != 0 || s.Bytes != 2*(50000+50000+3000) {
		t.Errorf("%+v", s)
	}
}

func TestProxyCuts(t *testing.T) {
	p := newEcho(t)
	a, b := dial(t, p), dial(t, p)
	for _, c := range []net.Conn{a, b} {
		write(t, c, "x")
		expect(t, c, "x")
	}
	if n := p.Cut(); n != 2 {
		t.Errorf("%d were cut", n)
	}
	torn(t, a)
	torn(t, b)
	c := dial(t, p)
	write(t, c, "y")
	expect(t, c, "y")
	if s := p.Stats(); s.Cut != 2 || s.Accepted != 3 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

// TestProxyCutsAfter: the cut is exact to the byte, also inside a message.
func TestProxyCutsAfter(t *testing.T) {
	p := newEcho(t)
	p.CutAfter(15)
	c := dial(t, p)
	write(t, c, "0123456789")
	expect(t, c, "01234") // 10 and 5
	if _, err := io.ReadAll(c); err == nil {
		t.Error("an orderly end")
	}
	if s := p.Stats(); s.Bytes != 15 || s.Cut != 1 {
		t.Errorf("%+v", s)
	}
	p.CutAfter(0)
	c = dial(t, p)
	write(t, c, "0123456789")
	expect(t, c, "0123456789")
}

func TestProxyStalls(t *testing.T) {
	p := newEcho(t)
	c := dial(t, p)
	write(t, c, "a")
	expect(t, c, "a")
	p.Stall(true)
	write(t, c, "b")
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a byte came through")
	}
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	before := p.Stats().Bytes
	if before != 2 {
		t.Errorf("%d bytes forwarded, want 2", before)
	}
	p.Stall(false)
	expect(t, c, "b")
	p.Stall(true)
	p.Cut() // a stalled connection ends, too
	if _, err := io.ReadAll(c); err == nil {
		t.Error("an orderly end")
	}
}

// TestProxyThrottles: forwarding takes at least as long as the rate says.
func TestProxyThrottles(t *testing.T) {
	p := newEcho(t)
	p.Throttle(10000)
	c := dial(t, p)
	begin := time.Now()
	write(t, c, string(make([]byte, 1000)))
	expect(t, c, string(make([]byte, 1000)))
	// The last piece, of 200 bytes, is not waited for.
	if d := time.Since(begin); d < 80*time.Millisecond {
		t.Errorf("1000 bytes at 10000 per second in %v", d)
	}
	p.Throttle(0)
	write(t, c, "fast")
	expect(t, c, "fast")
}

func TestProxyRefuses(t *testing.T) {
	p := newEcho(t)
	p.Refuse(true)
	refused(t, p)
	p.Refuse(false)
	c := dial(t, p)
	write(t, c, "x")
	expect(t, c, "x")
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Redirect(dead.Addr().String())
	_ = dead.Close()
	refused(t, p) // there is no server
	if s := p.Stats(); s.Refused != 2 || s.Accepted != 1 {
		t.Errorf("%+v", s)
	}
}

// TestProxyCloses: Close works whatever the proxy was doing.
func TestProxyCloses(t *testing.T) {
	p := newEcho(t)
	p.Throttle(1)
	c := dial(t, p)
	write(t, c, "xxxxxxxx")
	testkit.Eventually(t, "the first byte", func() bool { return p.Stats().Bytes > 0 })
	p.Stall(true)
	p.Close()
	if _, err := io.ReadAll(c); err == nil {
		t.Error("an orderly end")
	}
	if s := p.Stats(); s.Open != 0 {
		t.Errorf("%+v", s)
	}
	p.Close()
}
