package load

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// attackOn attacks a server that echoes on its first connection, of the victim that is not disturbed, and handles the others as it is told.
// It takes longer and longer until what is waited for has happened, for machines that are slow.
func attackOn(t *testing.T, kind, protocol string, handle func(net.Conn), happened func(*Assault) bool) *Assault {
	t.Helper()
	for d := 200 * time.Millisecond; ; d *= 4 {
		if a := attackFor(t, kind, protocol, handle, d); happened(a) || d > 10*time.Second {
			return a
		}
	}
}

func attackFor(t *testing.T, kind, protocol string, handle func(net.Conn), d time.Duration) *Assault {
	t.Helper()
	var conns atomic.Int64
	addr := serve(t, func(c net.Conn) {
		if conns.Add(1) <= 1 {
			io.Copy(c, c) // the victim, while it is undisturbed
			return
		}
		handle(c)
	})
	o := AttackOptions{Kind: kind, Attackers: 2, Every: 5 * time.Millisecond, Options: Options{
		Protocol: protocol, Addr: addr, Conns: 1, Size: 64, InFlight: 1, Duration: d,
	}}
	from := time.Now()
	undisturbed, disturbed, a, err := Attack(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(from); protocol == "echo" && took < 2*d-d/4 {
		t.Errorf("victims that ended kept the attack from lasting: %v of %v", took-d, d)
	}
	if undisturbed == nil || disturbed == nil {
		t.Fatalf("%+v", a)
	}
	return a
}

// TestSlowReader: what the server did with those that ask and do not read is told apart.
func TestSlowReader(t *testing.T) {
	a := attackOn(t, SlowReader, "echo", func(c net.Conn) {
		io.ReadFull(c, make([]byte, 64)) // a victim has sent no more and ends here, too
		c.(*net.TCPConn).SetLinger(0)
	}, func(a *Assault) bool { return a.Ends[KindReset] > 0 })
	if a.Closed == 0 || a.Ends[KindReset] == 0 || a.Lived.TotalCount() != a.Closed || a.Opened < a.Closed {
		t.Errorf("a server that closes: %+v", a)
	}
	a = attackOn(t, SlowReader, "frame", func(c net.Conn) { io.Copy(io.Discard, c) }, func(a *Assault) bool { return a.Taking > 0 && a.Sent > 0 })
	if a.Taking == 0 || a.Sent == 0 || a.Closed > 0 {
		t.Errorf("a server that takes everything: %+v", a)
	}
}

// TestSlowReaderPaused: a server that stops reading is told from one that does not.
func TestSlowReaderPaused(t *testing.T) {
	var conns atomic.Int64
	block := make(chan struct{})
	addr := serve(t, func(c net.Conn) {
		if conns.Add(1) == 1 {
			io.Copy(c, c)
			return
		}
		<-block
	})
	defer close(block)
	o := AttackOptions{Kind: SlowReader, Attackers: 1, Options: Options{Protocol: "echo", Addr: addr, Conns: 1, Size: 64, InFlight: 1, Duration: pausedFor + 200*time.Millisecond}}
	for paused := false; !paused; o.Duration *= 2 {
		conns.Store(0)
		_, disturbed, a, err := Attack(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Closed != 0 || a.Paused+a.Taking != a.Opened || disturbed.Requests != 0 {
			t.Errorf("%+v, %d answers", a, disturbed.Requests)
		}
		if paused = a.Paused == 1; !paused && o.Duration > 20*time.Second {
			t.Fatalf("not paused: %+v", a)
		}
	}
}

// TestSlowloris: a server that has waited for the rest of a request as long as it likes ends the connection.
func TestSlowloris(t *testing.T) {
	a := attackOn(t, Slowloris, "frame", func(c net.Conn) {
		io.ReadFull(c, make([]byte, 8))
	}, func(a *Assault) bool { return a.Closed > 0 && a.Sent > 0 })
	if a.Closed == 0 || a.Sent == 0 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		o    AttackOptions
		want string
	}{
		{AttackOptions{Kind: Slowloris, Attackers: 1, Every: time.Second, Options: Options{Protocol: "echo"}}, "no unfinished request"},
		{AttackOptions{Kind: Slowloris, Attackers: 1, Options: Options{Protocol: "http"}}, "--every 0s"},
		{AttackOptions{Kind: SlowReader, Options: Options{Protocol: "http"}}, "--attackers 0"},
	} {
		if err := c.o.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestPieces: half a request is sent in pieces and never comes to its end, in every protocol that has one.
func TestPieces(t *testing.T) {
	for _, protocol := range dripping {
		o := AttackOptions{Kind: Slowloris, Attackers: 1, Every: time.Second, Options: Options{Protocol: protocol, Addr: "127.0.0.1:1", Conns: 1, Size: 64, InFlight: 1, Duration: time.Second}}
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		c := &conn{protocol: newProtocol(o.Options)}
		next := newAttack(o).pieces(c)
		var sent []byte
		for range 300 {
			sent = append(sent, next()...)
		}
		if protocol == "http" {
			if !strings.HasPrefix(string(sent), "GET / HTTP/1.1\r\n") || strings.Contains(string(sent), "\r\n\r\n") || !strings.HasSuffix(string(sent), "X-299: a\r\n") {
				t.Errorf("%q", sent)
			}
			continue
		}
		whole := newProtocol(o.Options).requests(1)
		if len(sent) != len(whole)-1 || protocol != "ws" && string(sent) != string(whole[:len(sent)]) {
			t.Errorf("%s: %q of %q", protocol, sent, whole)
		}
	}
}
