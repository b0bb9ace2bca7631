package eddy

import "time"

// progress tracks how far a slow peer takes what is queued for it. Times are monotonic ns of the loop.
//
// Bytes count once the peer has acknowledged them. Readiness says little about a slow reader: the kernel holds megabytes,
// and a socket becomes writable again only when a third has gone. So the system is asked when a connection becomes stuck,
// and then at the times of nextQuestion. Where the system cannot tell, bytes taken by the kernel count.
type progress struct {
	stuckSince int64 // since when more waits than the kernel could take; moved on by what the peer takes
	highSince  int64 // since when the outbound queue is above its high watermark; moved on likewise
	asked      int64 // when the system was last asked, 0 while it is not asked
	unacked    int   // bytes unacknowledged at the last count
	taken      int64 // bytes that the kernel has taken since that count
}

// took counts n bytes that the kernel has taken, at once or when the peer has acknowledged them.
func (p *progress) took(n int, now int64, rate int) {
	if p.asked != 0 {
		p.taken += int64(n)
		return
	}
	p.putOff(int64(n), now, rate)
}

// putOff extends the deadlines of a slow reader by the time that n bytes take at rate, in bytes per second. The starting
// times move to now at most; rate 0 moves them to now.
func (p *progress) putOff(n, now int64, rate int) {
	credit := now
	if rate > 0 {
		credit = int64(min(float64(n)*float64(time.Second)/float64(rate), float64(now)))
	}
	if p.stuckSince != 0 {
		p.stuckSince = min(now, p.stuckSince+credit)
	}
	if p.highSince != 0 {
		p.highSince = min(now, p.highSince+credit)
	}
}

// writeStuck notes that more waits than the kernel could take.
func (c *Conn) writeStuck() {
	if c.stuckSince() != 0 {
		return
	}
	c.extend().progress.stuckSince = c.loop.Now
	c.watchProgress()
	c.armDeadline()
}

// writeFree undoes writeStuck: nothing waits any more.
func (c *Conn) writeFree() {
	if x := c.ext.Load(); x != nil {
		x.progress.stuckSince, x.progress.asked = 0, 0
	}
}

// watchProgress asks the system for the first time, if any limit depends on the peer's progress.
func (c *Conn) watchProgress() {
	x, d := c.ext.Load(), c.limits()
	if x == nil || x.progress.stuckSince == 0 || x.progress.asked != 0 || d.Write|d.Backpressure|d.Idle == 0 {
		return
	}
	if n, err := c.loop.sock.Unacked(c.fd); err == nil {
		x.progress.asked, x.progress.unacked, x.progress.taken = c.loop.Now, n, 0
	}
}

// askProgress asks the system how much the peer has acknowledged since the last time, and extends the deadlines
// accordingly.
func (c *Conn) askProgress() {
	x := c.ext.Load()
	if x == nil || x.progress.asked == 0 {
		return
	}
	p, now := &x.progress, c.loop.Now
	p.asked = now
	unacked, err := c.loop.sock.Unacked(c.fd)
	if err != nil {
		unacked = p.unacked
	}
	n := p.taken + int64(p.unacked-unacked)
	if n <= 0 { // may be negative where the system counts more than bytes; it evens out
		return
	}
	p.unacked, p.taken = unacked, 0
	c.lastActive = now
	p.putOff(n, now, c.set.minRate)
}

// nextQuestion returns when to ask the system again, 0 for never. The interval is half the shortest limit, which means
// that a peer that stops is detected within one and a half limits.
func (c *Conn) nextQuestion(d *Deadlines) int64 {
	x := c.ext.Load()
	if x == nil || x.progress.asked == 0 {
		return 0
	}
	limit := earlier(int64(d.Write), int64(d.Idle))
	if x.progress.highSince != 0 {
		limit = earlier(limit, int64(d.Backpressure))
	}
	return due(x.progress.asked, time.Duration(limit/2))
}

// stuckSince returns since when the peer has taken too little of what waits, 0 if nothing waits.
func (c *Conn) stuckSince() int64 {
	if x := c.ext.Load(); x != nil {
		return x.progress.stuckSince
	}
	return 0
}

// highSince returns when the outbound queue reached its high watermark, 0 when the queue is not above it.
func (c *Conn) highSince() int64 {
	if x := c.ext.Load(); x != nil {
		return x.progress.highSince
	}
	return 0
}

// breachBegins and breachEnds time how long the outbound queue stays above its high watermark.
func (c *Conn) breachBegins() {
	c.extend().progress.highSince = c.loop.Now
	if c.limits().Backpressure > 0 {
		c.armDeadline()
	}
}

func (c *Conn) breachEnds() {
	if x := c.ext.Load(); x != nil {
		x.progress.highSince = 0
	}
}
