package eddy

import (
	"context"
	"slices"
	"testing"
	"time"
)

// heard notes which connections were told DrainEvent.
type heard struct{ told map[*Conn]int }

func (h heard) HandleEvent(ctx *Context, ev any) error {
	if ev == (DrainEvent{}) {
		h.told[ctx.Conn()]++
	}
	ctx.FireEvent(ev)
	return nil
}

// newRelief makes a stage whose server echoes, and takes note of DrainEvents.
func newRelief(t *testing.T) (*stage, *loop, heard) {
	h := heard{map[*Conn]int{}}
	srv := cutServer(func(ctx *Context, msg string) error {
		if msg == "hold" {
			ctx.Conn().Begin()
			return nil
		}
		return ctx.Write(msg)
	})
	init := srv.Init
	srv.Init = func(p *Pipeline) error {
		p.Add("heard", h)
		return init(p)
	}
	st, l := newStage(t, srv)
	return st, l, h
}

// TestEndIdle: the connections that have been idle longest end, so many at most, each once. One that works stays, one between two
// requests stays, and what a peer has sent in this moment is answered first.
func TestEndIdle(t *testing.T) {
	st, l, h := newRelief(t)
	owner := &st.srv.endpoint
	var all []*actor
	for range 6 { // the first has been idle longest
		all = append(all, st.connect(l))
		st.pass(l, time.Second, time.Second)
	}
	all[1].send("hold;")
	l.Iterate()
	st.pass(l, time.Second, time.Second)
	all[5].send("x;")
	l.Iterate()
	all[0].send("late;")
	l.relieve(owner, 2, reliefIdle)
	l.Iterate()
	st.pass(l, 5*time.Second, time.Second)
	var ended []int
	for i, a := range all {
		if a.ended() == CloseOverload {
			ended = append(ended, i)
		} else if a.ended() != CloseUnset {
			t.Errorf("connection %d ended with %v", i, a.ended())
		}
	}
	if want := []int{0, 2}; !slices.Equal(ended, want) || string(all[0].out) != "late" || h.told[all[0].conn] != 1 {
		t.Errorf("%v ended, want %v; the late request was answered %q; told %d times", ended, want, all[0].out, h.told[all[0].conn])
	}
	l.relieve(owner, 100, reliefIdle)
	st.pass(l, 5*time.Second, time.Second)
	if all[1].ended() != CloseUnset || owner.relief.ended[reliefIdle].Load() != 5 {
		t.Errorf("the busy one ended with %v; %d counted", all[1].ended(), owner.relief.ended[reliefIdle].Load())
	}
	all[1].conn.End()
	l.relieve(owner, 100, reliefIdle) // it has written nothing since, but its request has just ended
	st.pass(l, 5*time.Second, time.Second)
	if got := all[1].ended(); got != CloseOverload {
		t.Errorf("the last one ended with %v", got)
	}
}

// TestEndKeepAlive: connections that work are asked to end after what is in flight; those that rest are left to EndIdle. A drain
// that follows does not tell them again, and connections of others on the loop notice nothing.
func TestEndKeepAlive(t *testing.T) {
	st, l, h := newRelief(t)
	owner := &st.srv.endpoint
	rests := st.connect(l)
	st.pass(l, 2*time.Second, time.Second)
	busy, quick := st.connect(l), st.connect(l)
	busy.send("hold;")
	quick.send("x;")
	l.Iterate()
	l.relieve(owner, 100, reliefKeepAlive)
	l.relieve(owner, 100, reliefKeepAlive)
	st.pass(l, 5*time.Second, time.Second)
	if rests.ended() != CloseUnset || busy.ended() != CloseUnset || quick.ended() != CloseOverload || !busy.conn.Draining() || rests.conn.Draining() {
		t.Errorf("ended: %v, %v, %v; told: %v, %v", rests.ended(), busy.ended(), quick.ended(), busy.conn.Draining(), rests.conn.Draining())
	}
	if n := owner.relief.ended[reliefKeepAlive].Load(); n != 2 || h.told[busy.conn] != 1 {
		t.Errorf("%d counted, the busy one told %d times", n, h.told[busy.conn])
	}
	owner.phase.Store(int32(serverDraining))
	l.startDrain(owner)
	l.relieve(owner, 100, reliefIdle) // the drain is enough
	l.Iterate()
	busy.conn.End()
	st.pass(l, 5*time.Second, time.Second)
	if h.told[busy.conn] != 1 || h.told[rests.conn] != 1 || busy.ended() != CloseServerShutdown || rests.ended() != CloseServerShutdown {
		t.Errorf("told %d and %d times; ended with %v and %v", h.told[busy.conn], h.told[rests.conn], busy.ended(), rests.ended())
	}
	if n := owner.relief.ended[reliefIdle].Load(); n != 0 {
		t.Errorf("%d counted after the drain", n)
	}
}

// TestReliefLooksAtABoundedPart: a call looks at a bounded number of connections, from another place each time.
func TestReliefLooksAtABoundedPart(t *testing.T) {
	st, l, _ := newRelief(t)
	for n := range reliefScan + 500 {
		if st.place(l); n%50 == 0 { // fewer than the tasks of one iteration
			l.Iterate()
		}
	}
	l.Iterate()
	st.pass(l, time.Minute, time.Minute)
	l.relieve(&st.srv.endpoint, 2*reliefScan, reliefIdle)
	if n := st.srv.endpoint.relief.ended[reliefIdle].Load(); n != reliefScan {
		t.Errorf("%d ended by one call, want %d", n, reliefScan)
	}
	l.relieve(&st.srv.endpoint, 10*reliefScan, reliefIdle)
	l.relieve(&st.srv.endpoint, 10*reliefScan, reliefIdle)
	for range 100 {
		l.relieve(&st.srv.endpoint, 10*reliefScan, reliefIdle)
	}
	if n := st.srv.endpoint.relief.ended[reliefIdle].Load(); n != reliefScan+500 {
		t.Errorf("%d ended by many calls, want all %d", n, reliefScan+500)
	}
}

// TestReliefOfAServer: before Listen and after the end the calls do nothing; between them a loop that does not come to its task is
// given no second one.
func TestReliefOfAServer(t *testing.T) {
	srv := &Server{Loops: 1, Init: func(*Pipeline) error { return nil }}
	srv.EndIdle(1)
	srv.RefuseConns(true)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	held, hold := make(chan struct{}), make(chan struct{})
	w := srv.Workers()[0]
	if err := w.Post(func() { close(held); <-hold }); err != nil {
		t.Fatal(err)
	}
	<-held
	for range 100 {
		srv.EndIdle(1)
		srv.EndKeepAlive(1)
	}
	if n := srv.Stats().Loops[0].TaskQueueDepth; n > 2 {
		t.Errorf("%d tasks are queued, want 2", n)
	}
	close(hold)
	if _, err := srv.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	srv.EndIdle(1)
	srv.RefuseConns(false)
}
