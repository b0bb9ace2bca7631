package enginetest

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy"
)

// TestClock: a deadline falls due when the test says so, to the tick, and not before; a timer, too.
func TestClock(t *testing.T) {
	srv := echo()
	srv.IdleTimeout = time.Hour
	clock := NewClock(t, srv)
	p := Dial(t, Serve(t, srv))
	p.Send("hello")
	p.Expect("hello")
	clock.Advance(time.Hour - 20*time.Millisecond)
	if s := srv.Stats(); s.Active != 1 || len(s.Closed) != 0 {
		t.Fatalf("before the hour is over: %d active, closed %v", s.Active, s.Closed)
	}
	clock.Advance(40 * time.Millisecond)
	p.ExpectEnd()
	if s := srv.Stats(); s.Closed[eddy.CloseIdleTimeout] != 1 {
		t.Fatalf("after the hour: closed %v", s.Closed)
	}

	var runs []int64
	if err := srv.Workers()[0].Post(func() {
		srv.Workers()[0].Every(time.Minute, func() { runs = append(runs, clock.Now()) })
	}); err != nil {
		t.Fatal(err)
	}
	Barrier(t, srv)
	clock.Pass(10*time.Minute, time.Minute)
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 10 {
		t.Errorf("a timer of a minute ran at %v in ten minutes", runs)
	}
	for _, l := range srv.Stats().Loops {
		if l.Premature > 0 || l.PollErrors > 0 {
			t.Errorf("loop %s suspects its poller: %d premature waits, %d errors", l.Name, l.Premature, l.PollErrors)
		}
	}
}

// TestClockOfOthers: groups and dialers follow a Clock, too.
func TestClockOfOthers(t *testing.T) {
	g := &eddy.Group{Loops: 1}
	srv := echo()
	srv.Loops, srv.Group = 0, g
	d := &eddy.Dialer{Group: g, IdleTimeout: time.Minute, Init: srv.Init}
	RelaxDialer(d)
	clock := NewClock(t, g, srv, d)
	addr := Serve(t, srv)
	defer g.Close()
	defer d.Close()
	c, err := d.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(59 * time.Second)
	if err := c.CloseError(); err != nil {
		t.Fatalf("after 59 s: %v", err)
	}
	clock.Advance(2 * time.Second)
	if err := c.CloseError(); err == nil || err.Reason != eddy.CloseIdleTimeout {
		t.Fatalf("after a minute: %v", err)
	}
}
