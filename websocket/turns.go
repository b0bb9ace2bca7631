package websocket

import "sync"

// turns bounds how many messages are inflated beyond one step at the same time; other connections wait in its queue. A
// few compressed bytes may inflate to the size of the largest message. Without a bound, all connections that send such
// messages would hold that much memory at once.
type turns struct {
	mu    sync.Mutex
	free  int
	queue []*Conn // in the order of arrival
}

// take takes a place for the message of c. Without a free place it queues c and returns false.
func (q *turns) take(c *Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		return true
	}
	c.deflate.turn.Init(c.Eddy(), c.inflateParked)
	q.queue = append(q.queue, c)
	return false
}

// leave passes a place to the connection that has waited longest, or frees it.
func (q *turns) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 {
		c := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if c.deflate.turn.Raise() == nil { // an error means that its loop has ended
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

// park keeps only the compressed bytes of the message in work.
func (d *deflateState) park() {
	f := d.work
	d.work = nil
	d.parked = f.in.b[:len(f.in.b)-len(inflateTail)]
	f.in.b, f.out = nil, nil
	d.putInflater(f)
}

// inflateParked starts again with a parked message when its turn has come. It runs on the loop, also after the end of
// the connection, and then passes the place on.
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
