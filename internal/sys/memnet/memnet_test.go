package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const way = 10 * time.Millisecond

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// pair returns the machines and the ends of a connection.
func pair(t *testing.T) (client, server *Machine, near, far net.Conn) {
	t.Helper()
	n := New(func(_, _ netip.Addr) time.Duration { return way })
	client, server = n.Machine(at("10.0.0.1:0").Addr()), n.Machine(at("10.0.0.2:0").Addr())
	l, err := server.listen(at("10.0.0.2:80"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	begin := time.Now()
	if near, err = client.dial(t.Context(), "tcp", "10.0.0.2:80"); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d != 2*way {
		t.Errorf("connected after %v", d)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server, near, far
}

// TestDelivery: bytes arrive in order after the way, and so does the end of the stream behind them.
func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, near, far := pair(t)
		begin := time.Now()
		for _, s := range []string{"one ", "two"} {
			if _, err := near.Write([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		near.Close()
		b, err := io.ReadAll(far)
		if string(b) != "one two" || err != nil || time.Since(begin) != way {
			t.Errorf("%q, %v after %v", b, err, time.Since(begin))
		}
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write to an end that is closed: %v", err)
		}
		if got, want := near.LocalAddr().String(), far.RemoteAddr().String(); got != want {
			t.Errorf("%s and %s", got, want)
		}
	})
}

// TestFull: a writer waits while too much is under way, until somebody reads or its deadline passes.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, near, far := pair(t)
		near.SetWriteDeadline(time.Now().Add(time.Minute))
		begin := time.Now()
		n, err := near.Write(make([]byte, 2*windowSize))
		if n != windowSize || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("%d, %v after %v", n, err, time.Since(begin))
		}
		go io.Copy(io.Discard, near)
		go func() {
			far.Write(make([]byte, 2*windowSize))
			far.Close()
		}()
		synctest.Wait()
		near.Close()
	})
}

// TestCut: nothing arrives while a machine is cut off, neither bytes nor connections; all of it does afterwards.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, near, far := pair(t)
		for _, m := range []*Machine{client, server} {
			m.Cut()
			near.Write([]byte("x"))
			time.AfterFunc(time.Hour, m.Heal)
			begin := time.Now()
			if n, err := far.Read(make([]byte, 8)); n != 1 || err != nil || time.Since(begin) != time.Hour {
				t.Errorf("%d, %v after %v", n, err, time.Since(begin))
			}
			m.Cut()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := client.dial(ctx, "tcp", "10.0.0.2:80"); !errors.Is(err, syscall.ETIMEDOUT) {
				t.Errorf("dial: %v", err)
			}
			cancel()
			m.Heal()
		}
	})
}

// TestReset: both ends of each connection of a machine that has lost its memory are reset.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server, near, far := pair(t)
		server.Reset()
		for _, c := range []net.Conn{near, far} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("write: %v", err)
			}
			c.Close()
		}
	})
}

// TestNobody: a port that nobody listens on refuses, one that is taken is not taken again, and the connections of a listener that closes are reset.
func TestNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(func(_, _ netip.Addr) time.Duration { return way })
		m := n.Machine(at("10.0.0.1:0").Addr())
		for _, to := range []string{"10.0.0.1:80", "10.9.9.9:80"} {
			if _, err := m.dial(t.Context(), "tcp", to); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", to, err)
			}
		}
		l, err := m.listen(at("10.0.0.1:80"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.listen(at("10.0.0.1:80")); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listen again: %v", err)
		}
		if _, err := m.listen(at("10.0.0.2:80")); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("listen elsewhere: %v", err)
		}
		c, err := m.dial(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if l, err = m.listen(at("10.0.0.1:80")); err != nil {
			t.Error(err)
		}
		l.Close()
	})
}
