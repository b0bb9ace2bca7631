package eddy

import "github.com/go-eddy/eddy/internal/transport"

// This file follows how far a slow peer takes what is queued for it, see transport.Progress.

// writeStuck notes that more waits than the kernel could take.
func (c *Conn) writeStuck() {
	if c.progress().Stuck != 0 {
		return
	}
	c.extend().progress.Stuck = c.loop.Now
	c.watchProgress()
	c.armDeadline()
}

// writeFree undoes writeStuck: nothing waits any more.
func (c *Conn) writeFree() {
	if x := c.ext.Load(); x != nil {
		x.progress.Free()
	}
}

// watchProgress asks the system for the first time, if any limit depends on the peer's progress.
func (c *Conn) watchProgress() {
	x, d := c.ext.Load(), c.limits()
	if x == nil || x.progress.Stuck == 0 || x.progress.Asked() || d.Write|d.Backpressure|d.Idle == 0 {
		return
	}
	if n, err := c.loop.sock.Unacked(c.fd); err == nil {
		x.progress.Ask(c.loop.Now, n)
	}
}

// askProgress asks the system how much the peer has acknowledged since the last time, and extends the deadlines
// accordingly.
func (c *Conn) askProgress() {
	x := c.ext.Load()
	if x == nil || !x.progress.Asked() {
		return
	}
	unacked, err := c.loop.sock.Unacked(c.fd)
	if x.progress.Answer(unacked, err, c.loop.Now, c.set.minRate) {
		c.lastActive = c.loop.Now
	}
}

// progress returns how the peer of a connection stands that is slow; the zero value for others.
func (c *Conn) progress() (p transport.Progress) {
	if x := c.ext.Load(); x != nil {
		p = x.progress
	}
	return p
}

// breachBegins and breachEnds time how long the outbound queue stays above its high watermark.
func (c *Conn) breachBegins() {
	c.extend().progress.High = c.loop.Now
	if c.limits().Backpressure > 0 {
		c.armDeadline()
	}
}

func (c *Conn) breachEnds() {
	if x := c.ext.Load(); x != nil {
		x.progress.High = 0
	}
}
