package eddy

import "time"

// progress is what the loop knows of a peer that takes less than there is for it. Times are monotonic ns of the loop.
//
// What counts is what the peer has acknowledged. The kernel holds megabytes, and a socket becomes writable again only when a
// third of them has gone: readiness is no news of a slow reader. The system is asked when a connection becomes stuck, and
// then as nextQuestion says. Where it does not tell, what the kernel takes counts.
type progress struct {
	stuckSince int64 // the kernel could take no more while more wait for it; what the peer takes moves it on
	highSince  int64 // the outbound queue is above its high watermark; the same moves it on
	asked      int64 // when the system was asked last, 0 while it is not asked
	unacked    int   // bytes that the peer had not acknowledged when its progress was counted last
	taken      int64 // bytes that the kernel has taken since then
}

// took counts n bytes that the kernel has taken: now, or when the peer has acknowledged them.
func (p *progress) took(n int, now int64, rate int) {
	if p.asked != 0 {
		p.taken += int64(n)
		return
	}
	p.putOff(int64(n), now, rate)
}

// putOff puts the deadlines of a slow reader off by the time that n bytes take at the lowest rate, in bytes per second, at
// most to now. Rate 0 is for all the time that has passed.
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

// writeStuck notes that the kernel has taken what it could and that more waits.
func (c *Conn) writeStuck() {
	if c.stuckSince() != 0 {
		return
	}
	c.extend().progress.stuckSince = c.loop.now
	c.watchProgress()
	c.armDeadline()
}

// writeFree ends that time: nothing waits any more.
func (c *Conn) writeFree() {
	if x := c.ext.Load(); x != nil {
		x.progress.stuckSince, x.progress.asked = 0, 0
	}
}

// watchProgress asks the system for the first time, if a limit will want to know what has changed since.
func (c *Conn) watchProgress() {
	x, d := c.ext.Load(), c.limits()
	if x == nil || x.progress.stuckSince == 0 || x.progress.asked != 0 || d.Write|d.Backpressure|d.Idle == 0 {
		return
	}
	if n, err := c.loop.sock.Unacked(c.fd); err == nil {
		x.progress.asked, x.progress.unacked, x.progress.taken = c.loop.now, n, 0
	}
}

// askProgress asks the system what the peer has acknowledged since the last time, and lets that put the deadlines off.
func (c *Conn) askProgress() {
	x := c.ext.Load()
	if x == nil || x.progress.asked == 0 {
		return
	}
	p, now := &x.progress, c.loop.now
	p.asked = now
	unacked, err := c.loop.sock.Unacked(c.fd)
	if err != nil {
		unacked = p.unacked
	}
	n := p.taken + int64(p.unacked-unacked)
	if n <= 0 { // a system that counts more than the bytes may say less than nothing: it evens out
		return
	}
	p.unacked, p.taken = unacked, 0
	c.lastActive = now
	p.putOff(n, now, c.set.minRate)
}

// nextQuestion returns when the system is to be asked again, 0 for not at all: twice within the shortest limit, so that a peer
// that stops is found out after the limit and half of it at the latest.
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

// stuckSince returns when the peer last took enough while more wait for it, 0 when nothing does.
func (c *Conn) stuckSince() int64 {
	if x := c.ext.Load(); x != nil {
		return x.progress.stuckSince
	}
	return 0
}

// highSince returns when the outbound queue reached its high watermark, 0 when it is not above it.
func (c *Conn) highSince() int64 {
	if x := c.ext.Load(); x != nil {
		return x.progress.highSince
	}
	return 0
}

// breachBegins and breachEnds time how long the outbound queue stays above its high watermark.
func (c *Conn) breachBegins() {
	c.extend().progress.highSince = c.loop.now
	if c.limits().Backpressure > 0 {
		c.armDeadline()
	}
}

func (c *Conn) breachEnds() {
	if x := c.ext.Load(); x != nil {
		x.progress.highSince = 0
	}
}
