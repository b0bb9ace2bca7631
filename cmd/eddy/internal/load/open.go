package load

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// schedule says when the requests of one connection are due, and which of them count.
type schedule struct {
	from, window, end time.Time // beginning of the warm-up and of the measurement, and the end of both
	conn              int
	o                 Options
}

// of returns the schedule of the ith connection.
func (t schedule) of(i int) schedule {
	t.conn = i
	return t
}

// due returns when the nth request of the connection is due. The connections take turns.
func (t schedule) due(n int64) time.Time {
	return t.from.Add(time.Duration(float64(n*int64(t.o.Conns)+int64(t.conn)) / float64(t.o.Rate) * float64(time.Second)))
}

// open is a connection that sends at a constant rate. A request that waits for a place, because the server is slow, is
// measured from the time at which it was due. Otherwise a server that stands still would be asked less, and measured
// less (coordinated omission).
type open struct {
	c net.Conn
	p protocol
	t schedule
	s *shard

	mu     sync.Mutex // flight: one goroutine sends, another receives
	flight *flight
	tick   <-chan struct{} // has an element when a request came due
	room   chan struct{}   // has an element when a place came free
	ended  chan struct{}
	sent   int64
}

// constant sends at the rate and receives until the connection ends. It returns the reason of the end.
func (g *generator) constant(c *conn, s *shard, t schedule) error {
	o := &open{c: c.Conn, p: c.protocol, t: t, s: s, flight: newFlight(c.protocol, g.InFlight), tick: g.ticks[t.conn], room: make(chan struct{}, 1), ended: make(chan struct{})}
	failed := make(chan error, 1)
	go func() { failed <- o.send() }()
	err := o.receive()
	close(o.ended)
	c.Close()
	<-failed // the error of the sender has the same cause
	now := time.Now()
	if errors.Is(err, os.ErrDeadlineExceeded) || now.After(t.end) { // the deadline can come a little early on a busy machine
		now = t.end
	}
	o.rest(now)
	return err
}

// send writes each request when it is due, or as soon after as there is a place for it.
func (o *open) send() error {
	for o.t.due(o.sent).Before(o.t.end) {
		if out := o.batch(time.Now()); len(out) > 0 {
			if _, err := o.c.Write(out); err != nil {
				return err
			}
			continue
		}
		select {
		case <-o.tick:
		case <-o.room:
		case <-o.ended:
			return nil
		}
	}
	return nil
}

// batch takes places for the requests that are due, and returns their bytes.
func (o *open) batch(now time.Time) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for most := o.flight.room(); n < most; n++ {
		if due := o.t.due(o.sent + int64(n)); due.After(now) || !due.Before(o.t.end) {
			break
		}
	}
	if n == 0 {
		return nil
	}
	out := o.p.requests(n)
	o.flight.sent(n, func(i int) time.Time { return o.t.due(o.sent + int64(i)) })
	o.s.mu.Lock()
	for i := range n {
		if due := o.t.due(o.sent + int64(i)); !due.Before(o.t.window) {
			record(o.s.late, now.Sub(due))
		}
	}
	o.s.mu.Unlock()
	o.sent += int64(n)
	return out
}

func (o *open) receive() error {
	for {
		n, err := o.p.receive(o.c)
		if e := o.take(n, time.Now()); e != nil {
			return e
		}
		if err != nil {
			return err
		}
		select {
		case o.room <- struct{}{}:
		default: // the sender has been told
		}
	}
}

// take notes the answers that have come to requests that count.
func (o *open) take(n int, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.flight.answered(n, func(due time.Time, refused bool) {
		if !due.Before(o.t.window) {
			o.s.answer(now.Sub(due), refused)
		}
	})
}

// rest records the requests that are due and have no answer at the end, which is now, with their age. The slowest
// requests are thus not left out.
func (o *open) rest(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	late := func(due time.Time) {
		if due.Before(o.t.window) {
			return
		}
		o.s.unanswered++
		record(o.s.latencies, now.Sub(due))
	}
	o.flight.unanswered(late)
	for due := o.t.due(o.sent); due.Before(now); due = o.t.due(o.sent) {
		late(due)
		o.sent++
	}
}
