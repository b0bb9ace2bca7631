package websocket

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// The times of tests on a clock. A tick is more than the loops look up deadlines in.
const (
	interval = 30 * time.Second
	answer   = 10 * time.Second // for a pong, a message or a close frame
	tick     = 20 * time.Millisecond
)

// A silent client is sent a ping; one that answers stays, one that does not is
// closed.
func TestKeepAlive(t *testing.T) {
	h := &ponger{messages: newMessages(), pongs: make(chan string, 1)}
	s, clock := startOnClock(t, h, Options{PingInterval: interval, PongTimeout: answer})
	c := s.rawDial("")
	sc := testkit.Receive(t, "a connection", h.conns)
	for range 3 {
		clock.Advance(interval + tick)
		c.want(0x89, "")
		clock.Advance(answer - tick)
		c.send(frame(0x8a, ""))
		testkit.Receive(t, "the pong", h.pongs)
		clock.Advance(2 * tick)
	}
	clock.Advance(interval + tick)
	c.want(0x89, "")
	clock.Advance(answer - tick)
	if err := sc.conn.CloseError(); err != nil {
		t.Fatalf("before the time for an answer is over: %v", err)
	}
	clock.Advance(2 * tick)
	c.wantCut()
	if e := testkit.Receive(t, "HandleClose", h.closed); e.code != CloseAbnormal {
		t.Errorf("closed with %+v", e)
	}
	s.waitClosed(eddy.CloseIdleTimeout, 1)
}

// A connection whose reads the application has paused cannot be heard. It is not taken for dead.
func TestKeepAliveOfPausedConnection(t *testing.T) {
	s, clock := startOnClock(t, nil, Options{PingInterval: interval, PongTimeout: answer})
	c := s.rawDial("")
	sc := s.conn()
	sc.PauseRead()
	enginetest.Barrier(t, s.srv)
	clock.Pass(5*interval, answer/2)
	if err := sc.conn.CloseError(); err != nil {
		t.Fatal(err)
	}
	sc.ResumeRead()
	c.send(frame(0x81, "still here"))
	c.want(0x81, "still here")
}

// R078: a client that drips a frame is cut off, although it sends all the time.
func TestMessageTimeout(t *testing.T) {
	for name, drip := range map[string]string{
		"small frame": frame(0x81, "hello"),
		"large frame": frame(0x82, strings.Repeat("x", 100000)),
		"fragments":   frame(0x01, "a") + frame(0x00, strings.Repeat("x", 200)),
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := startOnClock(t, nil, Options{MessageTimeout: answer})
			c := s.rawDial(frame(0x81, "ok"))
			c.want(0x81, "ok")
			sc := s.conn()
			last := len(drip) - 3
			c.send(drip[:last])
			testkit.Eventually(t, "the message to begin", func() (begun bool) {
				onLoop(t, sc.Eddy().Loop(), func() { begun = sc.frameTimer != nil })
				return begun
			})
			for i := range 2 {
				clock.Advance(answer/2 - tick)
				c.send(drip[last+i : last+i+1])
				enginetest.Barrier(t, s.srv)
			}
			if err := sc.conn.CloseError(); err != nil {
				t.Fatalf("before the time is over: %v", err)
			}
			clock.Advance(3 * tick)
			c.wantClose(ClosePolicyViolation)
			s.wantEnd(ClosePolicyViolation, "")
			s.waitClosed(eddy.CloseReadTimeout, 1)
		})
	}
}

// A client that does not read gets a bounded number of pongs.
func TestPongsAreDroppedForSlowReaders(t *testing.T) {
	e := newEcho()
	e.message = func(c *Conn, op Opcode, _ []byte) error {
		return c.Write(op, make([]byte, 4<<20))
	}
	// The kernel takes less than 4 MiB from a narrow server, even when the server notices late that the client does not
	// read.
	s := startWith(t, e, nil, Options{}, eddy.Watermarks{Low: 1 << 10, High: 2 << 10, Max: 1 << 20}, narrow)
	c := s.rawDial(frame(0x82, "go") + strings.Repeat(frame(0x89, "p"), 20))
	sc := s.conn()
	testkit.Eventually(t, "the queue to fill", func() bool { return !sc.conn.Writable() })
	if q := sc.conn.QueuedBytes(); q > 5<<20 {
		t.Errorf("%d bytes queued", q)
	}
	got := 0
	for {
		first, payload, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		if first == 0x82 {
			if len(payload) != 4<<20 {
				t.Errorf("message of %d bytes", len(payload))
			}
			break
		}
		got++
	}
	if got > 20 {
		t.Errorf("%d pongs for 20 pings", got)
	}
}

// Many goroutines write and one closes: every message is whole, and none follows
// the close frame.
func TestConcurrentWritesAndClose(t *testing.T) {
	s := start(t, Options{})
	c := s.rawDial("")
	sc := s.conn()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := sc.Write(Binary, make([]byte, 10+i%9000))
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for !sc.conn.Writable() && sc.conn.CloseError() == nil {
					runtime.Gosched()
				}
				if i == 500 {
					_ = sc.Close(1000, "")
				}
			}
		})
	}
	messages := 0
	for {
		first, p, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		if first == 0x88 {
			break
		}
		if first != 0x82 || len(p) < 10 {
			t.Fatalf("frame %#x of %d bytes", first, len(p))
		}
		messages++
	}
	if messages < 501 {
		t.Errorf("%d messages before the close frame", messages)
	}
	c.send(frame(0x88, "\x03\xe8"))
	c.wantEnd(nil)
	wg.Wait()
	s.wantEnd(1000, "")
}

// An error or a panic closes one connection with its code. Other connections live on.
func TestHandlerFailures(t *testing.T) {
	e := newEcho()
	e.message = func(c *Conn, op Opcode, data []byte) error {
		switch string(data) {
		case "panic":
			panic("handler")
		case "error":
			return errors.New("broken")
		case "code":
			return &CloseError{Code: 4002, Reason: "no"}
		}
		return c.WriteBytes(op, data)
	}
	s := startWith(t, e, nil, Options{}, eddy.Watermarks{})
	other := s.rawDial("")
	c := s.rawDial(frame(0x81, "panic") + frame(0x81, "after"))
	c.wantClose(1011)
	s.wantEnd(1011, "")
	s.waitClosed(eddy.CloseInternalError, 1)
	c = s.rawDial(frame(0x81, "error"))
	c.wantClose(1011)
	s.wantEnd(1011, "")
	s.waitClosed(eddy.CloseInternalError, 2)
	c = s.rawDial(frame(0x81, "code"))
	c.want(0x88, "\x0f\xa2no")
	c.send(frame(0x88, "\x0f\xa2"))
	c.wantEnd(nil)
	s.wantEnd(4002, "")
	other.send(frame(0x81, "alive"))
	other.want(0x81, "alive")
}

// A handler that refuses in HandleOpen, or panics there, leaves nothing behind.
func TestHandleOpenFails(t *testing.T) {
	for _, fail := range []func(*Conn) error{
		func(*Conn) error { return errors.New("refused") },
		func(*Conn) error { panic("open") },
	} {
		e := newEcho()
		e.open = fail
		s := startWith(t, e, nil, Options{}, eddy.Watermarks{})
		c := s.rawDial("")
		c.wantClose(1011)
		s.wantEnd(1011, "")
		s.waitClosed(eddy.CloseInternalError, 1)
		<-s.errs // Upgrade has returned
	}
}

// Shutdown sends 1001 to every client, after the handler's own farewell, and waits for the answers.
func TestDrain(t *testing.T) {
	e := newEcho()
	h := &farewell{echo: e}
	s := startWith(t, e, h, Options{}, eddy.Watermarks{})
	c := s.rawDial("")
	<-s.errs
	type outcome struct {
		report eddy.DrainReport
		err    error
	}
	done := make(chan outcome, 1)
	ctx := testkit.Context(t)
	go func() {
		report, err := s.srv.Shutdown(ctx)
		done <- outcome{report, err}
	}()
	c.want(0x81, "farewell")
	first, p, err := c.frame()
	if err != nil || first != 0x88 || binary.BigEndian.Uint16([]byte(p)) != 1001 {
		t.Fatalf("%#x %q, %v", first, p, err)
	}
	select {
	case o := <-done:
		t.Fatalf("Shutdown did not wait for the close handshake: %+v", o)
	default:
	}
	c.send(frame(0x88, "\x03\xe9"))
	c.wantEnd(nil)
	if o := <-done; o.err != nil || o.report != (eddy.DrainReport{Drained: 1}) {
		t.Errorf("%+v, %v", o.report, o.err)
	}
	s.wantEnd(1001, "")
}

// farewell is an echo that says goodbye.
type farewell struct{ *echo }

func (f *farewell) HandleDrain(c *Conn) { _ = c.Write(Text, []byte("farewell")) }

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"MaxMessage":         {MaxMessage: -1},
		"MaxFrame":           {MaxFrame: -1},
		"PongTimeout":        {PongTimeout: -1},
		"CloseTimeout":       {CloseTimeout: -1},
		"RequireSubprotocol": {RequireSubprotocol: true},
		"MaxFragments":       {MaxFragments: -1},
		"Subprotocols":       {Subprotocols: []string{"a b"}},
	} {
		if _, err := o.withDefaults(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
