package websocket

import (
	"time"

	"github.com/go-eddy/eddy"
)

// armKeepAlive schedules the next check of the peer.
func (c *Conn) armKeepAlive(d time.Duration) {
	c.keepTimer = nil
	if t, err := c.ctx.After(d, c.keepAlive); err == nil { // else the connection has ended
		c.keepTimer = t
	}
}

// keepAlive checks that the peer is alive. A peer that was not heard since the
// last check gets a ping, and PongTimeout to answer with any frame.
func (c *Conn) keepAlive() {
	switch {
	case c.over:
		c.keepTimer = nil
	case !c.conn.Writable():
		c.checkStuck()
	case c.paused(): // nothing is read, so silence tells nothing
		c.heard, c.pinged, c.stuck = false, false, 0
		c.armKeepAlive(c.cfg.PingInterval)
	case c.heard, c.frameTimer != nil: // an incomplete message has a deadline of its own
		c.heard, c.pinged, c.stuck = false, false, 0
		c.armKeepAlive(c.cfg.PingInterval)
	case c.pinged:
		c.over = true
		c.keepTimer = nil
		c.conn.CloseWith(eddy.CloseIdleTimeout, errPongTimeout)
	default:
		c.pinged, c.stuck = true, 0
		_ = c.writeFrame(first(opPing), nil) // an error means that the connection is ending
		c.armKeepAlive(c.cfg.PongTimeout)
	}
}

// checkStuck checks a peer that cannot be heard, because its reads are paused
// until it has read what is queued for it. Such a peer may be slow, but its
// queue must get shorter.
func (c *Conn) checkStuck() {
	queued := c.conn.QueuedBytes()
	if c.stuck > 0 && queued >= c.stuck {
		c.over = true
		c.keepTimer = nil
		c.conn.CloseWith(eddy.CloseWriteTimeout, errStuck)
		return
	}
	c.stuck, c.pinged = queued, false
	c.armKeepAlive(c.cfg.PingInterval)
}

// watchMessage starts the deadline of an incomplete message, or ends it.
func (c *Conn) watchMessage(incomplete bool) {
	switch {
	case incomplete && c.frameTimer == nil && !c.over && c.cfg.MessageTimeout > 0:
		if t, err := c.ctx.After(c.cfg.MessageTimeout, c.messageLate); err == nil { // else the connection has ended
			c.frameTimer = t
		}
	case !incomplete && c.frameTimer != nil:
		stop(&c.frameTimer)
	}
}

// messageLate ends a connection whose message took too long, unless
// backpressure keeps the engine from reading it.
func (c *Conn) messageLate() {
	c.frameTimer = nil
	if c.over {
		return
	}
	if !c.conn.Writable() {
		c.watchMessage(true)
		return
	}
	c.end(ClosePolicyViolation, "a message did not arrive in time", eddy.CloseReadTimeout)
}
