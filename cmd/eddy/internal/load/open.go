package load

import (
	"net"
	"sync"
	"time"
)

// schedule says when the requests of one connection are due.
type schedule struct {
	from, end time.Time
	conn      int
	o         Options
}

// due is when the nth request of the connection is: the connections take turns.
func (t schedule) due(n int64) time.Time {
	return t.from.Add(time.Duration(float64(n*int64(t.o.Conns)+int64(t.conn)) / float64(t.o.Rate) * float64(time.Second)))
}

// open is a connection that sends at a constant rate. A request that waits for a place, because the server is slow, is measured from the
// time at which it was due: else a server that stands still would be asked, and measured, less (coordinated omission).
type open struct {
	f *frames
	t schedule
	s *shard

	mu    sync.Mutex // free, waits and due of the places; the two goroutines share them
	due   []time.Time
	room  chan struct{} // has an element when a place came free
	ended chan struct{}
	sent  int64
}

// drive sends and receives until the connection ends, and returns why it did.
func (f *frames) drive(c net.Conn, s *shard, t schedule) error {
	o := &open{f: f, t: t, s: s, due: make([]time.Time, len(f.waits)), room: make(chan struct{}, 1), ended: make(chan struct{})}
	failed := make(chan error, 1)
	go func() { failed <- o.send(c) }()
	err := o.receive(c)
	close(o.ended)
	c.Close()
	<-failed // a side of the same end
	o.rest()
	return err
}

// send writes each request when it is due, or as soon after as there is a place for it.
func (o *open) send(c net.Conn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := o.t.due(o.sent)
		if !due.Before(o.t.end) {
			return nil
		}
		wait := time.Until(due)
		if wait <= 0 {
			out := o.batch(time.Now())
			if len(out) > 0 {
				if _, err := c.Write(out); err != nil {
					return err
				}
				continue
			}
			select {
			case <-o.room:
			case <-o.ended:
				return nil
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-o.ended:
			return nil
		}
	}
}

// batch takes places for what is due, and returns their requests.
func (o *open) batch(now time.Time) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.f
	f.out = f.out[:0]
	for due := o.t.due(o.sent); len(f.free) > 0 && !due.After(now) && due.Before(o.t.end); due = o.t.due(o.sent) {
		place := f.free[len(f.free)-1]
		f.free = f.free[:len(f.free)-1]
		f.waits[place], o.due[place] = true, due
		f.out = f.appendRequest(f.out, place)
		o.sent++
	}
	return f.out
}

// lockedReader lets the protocol's state be locked only while there is something to take.
type lockedReader struct {
	net.Conn
	mu *sync.Mutex
}

// Read implements io.Reader; the lock is held when it is called and when it returns.
func (r lockedReader) Read(p []byte) (int, error) {
	r.mu.Unlock()
	defer r.mu.Lock()
	return r.Conn.Read(p)
}

func (o *open) receive(c net.Conn) error {
	r := lockedReader{c, &o.mu}
	for {
		o.mu.Lock()
		_, err := o.f.receive(r)
		if err == nil {
			o.take(time.Now())
		}
		o.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case o.room <- struct{}{}:
		default: // it has been told
		}
	}
}

// take notes the answers that have come. o.mu is held.
func (o *open) take(now time.Time) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for i, place := range o.f.done {
		o.s.record(now.Sub(o.due[place]), o.f.busy[i])
	}
}

// rest notes what was due before the end and has no answer, with its age: the slowest are not left out.
func (o *open) rest() {
	now := time.Now()
	if now.After(o.t.end) {
		now = o.t.end
	}
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	late := func(due time.Time) {
		o.s.unanswered++
		_ = o.s.latencies.RecordValue(int64(min(max(now.Sub(due), 0), maxLatency)))
	}
	for place, waits := range o.f.waits {
		if waits {
			late(o.due[place])
		}
	}
	for due := o.t.due(o.sent); due.Before(now); due = o.t.due(o.sent) {
		late(due)
		o.sent++
	}
}
