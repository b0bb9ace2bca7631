package eddy

// forceBatch is the number of slots whose connections are ended in one iteration when their endpoint ends by force. It is
// bounded because connections of others may live on the loop.
const forceBatch = 256

// forceWalk is a loop's way through its connections for an endpoint that ends by force.
type forceWalk struct {
	owner  *endpoint
	cause  error
	cursor int           // slots below it have been ended
	over   chan struct{} // closed when all have been
}

// startForce begins to end the owner's connections. The owner gets no further ones.
func (l *loop) startForce(w forceWalk) {
	l.abandon(w.owner)
	l.walks.forces = append(l.walks.forces, w)
}

// continueForce ends the next connections of each owner.
func (l *loop) continueForce() {
	for i := len(l.walks.forces) - 1; i >= 0; i-- {
		w := &l.walks.forces[i]
		end := min(w.cursor+forceBatch, len(l.table.slots))
		for _, c := range l.table.slots[w.cursor:end] {
			if c != nil && c.set.owner == w.owner {
				c.force(w.cause)
			}
		}
		if w.cursor = end; end == len(l.table.slots) {
			close(w.over)
			l.walks.forces = append(l.walks.forces[:i], l.walks.forces[i+1:]...)
		}
	}
}

func (c *Conn) force(cause error) {
	if !c.has(listedClose) {
		c.set.owner.forced.Add(1)
		c.set.owner.dropped.Add(int64(c.counts.inflight.Load()))
	}
	c.beginClose(CloseServerShutdown, cause)
}
