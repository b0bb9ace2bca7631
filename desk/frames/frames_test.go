package frames

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a session that notes what it is told.
type fake struct {
	mu       sync.Mutex
	received int
	closed   int
}

func (f *fake) Receive([]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received++
}

func (f *fake) Close(int, string) {}

func (f *fake) Closed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
}

func (f *fake) saw() (received, closed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.received, f.closed
}

// A client that says nothing for PingInterval has PongTimeout more. One that pings, or sends commands, stays.
func TestSilentNativeClientIsGone(t *testing.T) {
	f, left := new(fake), make(chan struct{}, 1)
	srv := new(eddy.Server)
	Configure(srv, Options{
		Connect: func(hub.Conn, hub.Peer) Session { return f },
		Enter:   func(*eddy.Conn) (hub.Peer, func(), bool) { return hub.Peer{}, func() { left <- struct{}{} }, true },
	})
	srv.ReadTimeout, srv.WriteTimeout, srv.BackpressureTimeout = 0, 0, 0
	clock := enginetest.NewClock(t, srv)
	p := enginetest.Dial(t, enginetest.Serve(t, srv))
	ping := string(frame.AppendRequest(nil, 1, frame.Ping, nil))
	for range 5 {
		p.Send(ping)
		p.Expect(ping)
		clock.Advance(hub.PingInterval + hub.PongTimeout - time.Second)
	}
	p.Send(string(frame.AppendRequest(nil, 1, frame.OneWay, []byte("{}"))))
	testkit.Eventually(t, "the command", func() bool { n, _ := f.saw(); return n == 1 })
	clock.Advance(hub.PingInterval + time.Second) // the look that finds that something was heard
	clock.Advance(hub.PingInterval)               // and the one that does not
	if st := enginetest.Stats(t, srv); st.Active != 1 {
		t.Fatal("the client has gone too early")
	}
	clock.Advance(hub.PongTimeout + time.Second)
	p.ExpectEnd()
	testkit.Receive(t, "the place", left)
	testkit.Eventually(t, "the end", func() bool { _, n := f.saw(); return n == 1 })
	if n := enginetest.Stats(t, srv).Closed[eddy.CloseIdleTimeout]; n != 1 {
		t.Errorf("%d closed as idle", n)
	}
}

// A connection that finds no place is told why, and has no session.
func TestNativeClientWithoutAPlace(t *testing.T) {
	srv := new(eddy.Server)
	Configure(srv, Options{
		Connect: func(hub.Conn, hub.Peer) Session { panic("connected") },
		Enter:   func(*eddy.Conn) (hub.Peer, func(), bool) { return hub.Peer{}, nil, false },
	})
	c, err := net.Dial("tcp", enginetest.Serve(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	event, err := json.Marshal(map[string]any{"t": "close", "d": map[string]any{"code": 4029, "reason": "too many connections from your address"}})
	if err != nil {
		t.Fatal(err)
	}
	want := frame.AppendError(frame.AppendResponse(nil, 0, event), 0, &frame.StatusError{Status: frame.StatusBusy, Message: "too many connections from your address"})
	got := make([]byte, len(want)+1)
	n := 0
	for {
		k, err := c.Read(got[n:])
		if n += k; err != nil || n > len(want) {
			break
		}
	}
	if string(got[:n]) != string(want) || !strings.Contains(string(want), "4029") {
		t.Errorf("got %q, want %q", got[:n], want)
	}
}
