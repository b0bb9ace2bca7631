package websocket

import "sync"

// turns are the places of messages that are inflated beyond a step, and who waits for one. A few compressed bytes may
// become as much as a message may have: without a bound, connections that send such at the same time would hold that
// much each, until the loops have come to them all.
type turns struct {
	mu    sync.Mutex
	free  int
	queue []*Conn // in the order of their coming
}

// take takes a place for the message of c, or lets it wait.
func (q *turns) take(c *Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		return true
	}
	c.deflate.turn.Init(c.conn, c.inflateParked)
	q.queue = append(q.queue, c)
	return false
}

// leave gives a place to the one who has waited longest.
func (q *turns) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 {
		c := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if c.deflate.turn.Raise() == nil { // else its loop has ended
			return
		}
	}
	q.queue = nil
	q.free++
}

func (q *turns) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// park keeps of the message in work what has come of it.
func (d *deflateState) park() {
	f := d.work
	d.work = nil
	d.parked = f.in.b[:len(f.in.b)-len(inflateTail)]
	f.in.b, f.out = nil, nil
	d.putInflater(f)
}

// inflateParked begins anew with a message that has waited. It is run on the loop when it is its turn, after the end of the
// connection too: then the place is passed on.
func (c *Conn) inflateParked() {
	d := c.deflate
	d.admitted = true
	if d.parked == nil {
		d.drop()
		return
	}
	d.work = d.getInflater(d.parked, d.history())
	d.parked = nil
	if c.inflateOn() {
		c.pause(&c.pauses.work, false)
	}
}
