package eddy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// heldMiB is the memory the Go runtime holds from the system and uses.
func heldMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
}

// captureConn hands out the connection of the first bytes and echoes.
func captureConn(conns chan<- *eddy.Conn) eddy.ReadHandler {
	return eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		err := ctx.WriteBytes(m.Bytes()) // before the test may fill the queue
		select {
		case conns <- ctx.Conn():
		default:
		}
		return err
	})
}

// TestSlowReader: the server sends 1 GiB to a peer that reads nothing. Memory stays flat because WriteContext waits,
// the connection's reads are paused, others are unaffected; a sender that ignores the bound closes the connection with
// backpressure_limit.
func TestSlowReader(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("capture", captureConn(conns))
		return p.Add("ends", &ends)
	}}
	enginetest.Narrow(srv)
	addr := start(t, srv)
	slow := enginetest.DialNarrow(t, addr)
	io.WriteString(slow, "x")
	conn := <-conns
	other := dial(t, addr)
	before := heldMiB()

	const total, chunkSize = 1 << 30, 64 << 10
	chunk := make([]byte, chunkSize)
	var sent atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		var err error
		for sent.Load() < total && err == nil {
			if err = conn.WriteContext(ctx, chunk); err == nil {
				sent.Add(chunkSize)
			}
		}
		over <- err
	}()
	last, still := int64(-1), 0
	waitFor(t, "a writer that waits", func() bool { // the loop goes round, and it has sent no more
		enginetest.Barrier(t, srv)
		if now := sent.Load(); now != last || conn.Writable() {
			last, still = now, 0
		}
		still++
		return still > 10 || last >= total
	})
	cancel()
	err := <-over
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("sent %d of %d bytes to a peer that reads nothing: %v", sent.Load(), total, err)
	}
	if q := conn.QueuedBytes(); q < 256<<10 || q > 2<<20 {
		t.Errorf("%d bytes queued, want between the watermarks", q)
	}
	if conn.Writable() {
		t.Error("the connection calls itself writable")
	}
	in := srv.Stats().Loops[0].BytesIn
	io.WriteString(slow, "not read while paused")
	io.WriteString(other, "alive\n")
	expectLines(t, bufio.NewReader(other), "alive")
	waitFor(t, "the other connection's bytes, and no more", func() bool { return srv.Stats().Loops[0].BytesIn == in+6 })
	if grown := heldMiB() - before; grown > 12 {
		t.Errorf("memory grew by %.1f MiB", grown)
	}

	rest := total
	for rest > 0 && err != nil { // now without waiting, as an application that ignores the bound
		if werr := conn.Write(chunk); werr != nil {
			err = nil
			if !errors.Is(werr, eddy.ErrBackpressure) {
				t.Errorf("Write = %v, want ErrBackpressure", werr)
			}
			break
		}
		rest -= chunkSize
	}
	if taken := total - rest; taken > 8<<20 {
		t.Errorf("%d bytes taken without waiting, limit 8 MiB", taken)
	}
	ends.wait(t, eddy.CloseBackpressureLimit)
	if grown := heldMiB() - before; grown > 12 {
		t.Errorf("memory after the close grew by %.1f MiB", grown)
	}
	if err := conn.Write([]byte("late")); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Write after close = %v", err)
	}
	io.WriteString(other, "still\n")
	expectLines(t, bufio.NewReader(other), "still")
}

// TestLargeResponseWithPartialWrites: a response above Max is taken below High, and arrives whole; writability is told
// both ways and write interest ends with the queue.
func TestLargeResponseWithPartialWrites(t *testing.T) {
	want := make([]byte, 20<<20)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	var marks writabilityLog
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("marks", &marks)
		return p.Add("big", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error { return ctx.Write(want) }))
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "go\n")
	waitFor(t, "write interest", func() bool { return srv.Stats().Loops[0].WriteInterest == 1 })
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the response arrived damaged")
	}
	waitFor(t, "the end of write interest", func() bool { return srv.Stats().Loops[0].WriteInterest == 0 })
	waitFor(t, "both crossings", func() bool { return marks.off.Load() == 1 && marks.on.Load() == 1 })
	io.WriteString(c, "go\n") // reads were resumed
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
}

type writabilityLog struct{ on, off atomic.Int32 }

func (w *writabilityLog) HandleWritability(_ *eddy.Context, writable bool) error {
	if writable {
		w.on.Add(1)
	} else {
		w.off.Add(1)
	}
	return nil
}

func TestOverflowReject(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, Overflow: eddy.OverflowReject, Init: initWith(captureConn(conns)),
		Watermarks: eddy.Watermarks{Low: 1 << 10, High: 2 << 10, Max: 4 << 10}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	io.ReadFull(c, make([]byte, 1))
	var err error
	for err == nil {
		err = conn.Write(make([]byte, 1024))
	}
	if !errors.Is(err, eddy.ErrBackpressure) {
		t.Fatalf("Write = %v, want ErrBackpressure", err)
	}
	go io.Copy(io.Discard, c)
	waitFor(t, "an empty queue", func() bool { return conn.QueuedBytes() == 0 })
	if err := conn.Write([]byte("again")); err != nil {
		t.Fatalf("Write after the queue drained = %v", err)
	}
}

func TestPauseAndResumeByTheApplication(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var handled atomic.Int32
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if handled.Add(1) == 1 {
				ctx.Conn().PauseRead()
				conns <- ctx.Conn()
			}
			return reply(ctx, m)
		}))
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "one\ntwo\nthree\n")
	conn := <-conns
	r := bufio.NewReader(c)
	expectLines(t, r, "one")
	io.WriteString(c, "four\n")
	other := dial(t, srv.Addr().String())
	io.WriteString(other, "x\n")
	expectLines(t, bufio.NewReader(other), "x")
	if n := handled.Load(); n != 2 {
		t.Fatalf("%d messages handled, want the first and the other connection's", n)
	}
	conn.ResumeRead()
	expectLines(t, r, "two", "three", "four") // two and three were received before the pause
}

func TestCloseAfterFlushKeepsOrder(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("capture", captureConn(conns))
		return p.Add("ends", &ends)
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	big := bytes.Repeat([]byte("y"), 512<<10)
	if err := conn.Write(big); err != nil {
		t.Fatal(err)
	}
	conn.CloseAfterFlush(eddy.CloseNormal)
	if err := conn.Write(big); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Write after CloseAfterFlush = %v", err)
	}
	io.WriteString(c, "unread input must not turn the end into a reset")
	got, err := io.ReadAll(c)
	if err != nil || len(got) != 1+len(big) {
		t.Fatalf("read %d bytes, %v, want %d", len(got), err, 1+len(big))
	}
	c.Close()
	ends.wait(t, eddy.CloseNormal)
	testkit.Receive(t, "the end", conn.CloseFuture().Done())
	if e := conn.CloseError(); e == nil || e.Reason != eddy.CloseNormal {
		t.Errorf("CloseError = %v", e)
	}
}

// TestContextCloses: a handler's close takes effect at once: what the peer sent behind it is not delivered.
func TestContextCloses(t *testing.T) {
	for word, want := range map[string][]string{"flush": {"before", "flush"}, "now": nil} {
		var ends closes
		addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
			p.Add("lines", &lines{})
			p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
				if err := reply(ctx, m); err != nil {
					return err
				}
				switch string(m.Bytes()) {
				case "flush":
					ctx.CloseAfterFlush(eddy.CloseNormal)
				case "now":
					ctx.Close(eddy.CloseNormal)
				}
				return nil
			}))
			return p.Add("ends", &ends)
		}})
		c := dial(t, addr)
		io.WriteString(c, "before\n"+word+"\nafter\n")
		r := bufio.NewReader(c)
		expectLines(t, r, want...)
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("%s: read %q behind the close", word, rest)
		}
		c.Close()
		ends.wait(t, eddy.CloseNormal)
	}
}

func TestFlushDeadline(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, FlushTimeout: time.Second, Init: func(p *eddy.Pipeline) error {
		p.Add("capture", captureConn(conns))
		return p.Add("ends", &ends)
	}}
	clock := enginetest.NewClock(t, srv)
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	io.ReadFull(c, make([]byte, 1)) // the echo, which would else meet the full queue
	if err := conn.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	conn.CloseAfterFlush(eddy.CloseNormal)
	enginetest.Barrier(t, srv)
	clock.Advance(900 * time.Millisecond)
	if n := srv.Stats().Active; n != 1 {
		t.Errorf("%d connections in time, want 1", n)
	}
	clock.Advance(100*time.Millisecond + tick)
	ends.wait(t, eddy.CloseWriteTimeout)
}

// TestHandlesOfDeadConnections: an id never reaches a later connection, and writing to it is a counted no-op.
func TestHandlesOfDeadConnections(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("capture", captureConn(conns))
		return p.Add("ends", &ends)
	}}
	addr := start(t, srv)
	first := dial(t, addr)
	io.WriteString(first, "1")
	dead := (<-conns).ID()
	io.ReadFull(first, make([]byte, 1))
	first.Close()
	ends.wait(t, eddy.ClosePeerClosed)
	second := dial(t, addr)
	io.WriteString(second, "2")
	live := (<-conns).ID()
	if dead == live {
		t.Fatalf("id %v was given twice", dead)
	}
	for range 10 {
		if err := srv.WriteTo(dead, []byte("stray")); err != nil {
			t.Fatal(err)
		}
	}
	if err := srv.WriteTo(live, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(second, got); err != nil || string(got) != "2hello" {
		t.Fatalf("read %q, %v", got, err)
	}
	waitFor(t, "10 dead writes", func() bool { return srv.Stats().Loops[0].DeadWrites == 10 })
}
