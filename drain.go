package eddy

import "errors"

// DrainReport counts what became of the connections that were open when Shutdown began, or were then accepted from the
// listener's queue. Each is either drained or forced. Sockets that a limit has refused are not among them; Stats.Refused
// counts those.
type DrainReport struct {
	Drained int // ended in order
	Forced  int // cut at the deadline
	Dropped int // requests that were in flight on the forced ones
}

var errForced = errors.New("eddy: shutdown deadline passed")

// drainBatch is the number of slots that are told to drain in one iteration.
const drainBatch = 256

// drainWalk is a loop's way through its connections for an endpoint that drains.
type drainWalk struct {
	owner  *endpoint
	cursor int // slots below it have been told
}

// startDrain begins to end the owner's connections in order.
func (l *loop) startDrain(owner *endpoint) {
	l.walks.drains = append(l.walks.drains, drainWalk{owner: owner})
	l.abandon(owner)
}

// endDrain forgets an owner that has no connections any more.
func (l *loop) endDrain(owner *endpoint) {
	for i := range l.walks.drains {
		if l.walks.drains[i].owner == owner {
			l.walks.drains = append(l.walks.drains[:i], l.walks.drains[i+1:]...)
			return
		}
	}
}

// drains reports whether the owner is draining, so that its new connections come too late.
func (l *loop) drains(owner *endpoint) bool {
	for i := range l.walks.drains {
		if l.walks.drains[i].owner == owner {
			return true
		}
	}
	return false
}

// walking reports whether some connections have not yet been told to drain, or not yet been ended by force.
func (l *loop) walking() bool {
	if len(l.walks.forces) > 0 {
		return true
	}
	for i := range l.walks.drains {
		if l.walks.drains[i].cursor < len(l.table.slots) {
			return true
		}
	}
	return false
}

// continueDrain tells the next connections, a bounded number per iteration.
func (l *loop) continueDrain() {
	for i := range l.walks.drains {
		owner, from := l.walks.drains[i].owner, l.walks.drains[i].cursor
		end := min(from+drainBatch, len(l.table.slots))
		l.walks.drains[i].cursor = end
		for _, c := range l.table.slots[from:end] {
			if c != nil && c.set.owner == owner && c.phase < PhaseClosing {
				l.drainConn(c)
			}
		}
	}
}

// drainConn tells a connection's handlers, takes what the peer has sent so far and ends the connection as soon as
// nothing is left to do. Later input meets an orderly end of stream.
func (l *loop) drainConn(c *Conn) {
	defer l.contain(c)
	l.serving.Store(c)
	c.raise(draining)
	c.mark(watchIdle | drainTold)
	c.fireEventFromHead(DrainEvent{})
	if c.phase < PhaseClosing && !c.has(inputEnded) && !c.readPaused() && !c.framesInHand() {
		c.frames = frameBudget
		c.readLoop(readCallBudget, 0)
	}
	l.afterActivity(c)
}

// checkDrain ends a connection whose end was put off, or a draining or half-closed one that has become idle.
func (c *Conn) checkDrain() {
	switch {
	case c.paused&pauseEnd != 0:
		late := c.ext.Load().late
		c.closeFlushed(late.Reason, late.Err)
	case c.phase >= PhaseClosing || !c.has(draining|inputEnded|outputEnds):
	case c.has(outputEnds):
		c.endOutput()
	case !c.idle():
	case c.has(draining):
		c.closeFlushed(CloseServerShutdown, nil)
	default:
		c.checkHalfClosed()
	}
}

// idle reports that no request is being read, handled or answered.
func (c *Conn) idle() bool {
	return c.counts.inflight.Load() == 0 && c.counts.encoding.Load() == 0 && c.counts.transit.Load() == 0 && c.queued.Load() == 0 && c.in == nil && c.innerBytes() == 0 && c.later() == 0
}

// checkDrainTask runs after the last request in flight has ended, behind the tasks that the request submitted.
func (c *Conn) checkDrainTask() {
	c.unmark(idleTask)
	c.fence()
	c.requestOver()
	c.loop.afterActivity(c)
}
