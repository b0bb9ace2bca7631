package transport

import "time"

// Progress tracks how far a slow peer takes what is queued for it. Times are monotonic ns, 0 for none.
//
// Bytes count once the peer has acknowledged them. Readiness says little about a slow reader: the kernel holds megabytes,
// and a socket becomes writable again only when a third has gone. So the system is asked when a stream becomes stuck, and
// then at the times of NextQuestion. Where the system cannot tell, bytes taken by the kernel count.
type Progress struct {
	Stuck int64 // since when more waits than the kernel could take; moved on by what the peer takes
	High  int64 // since when the outbound queue is above its high watermark; moved on likewise

	asked   int64 // when the system was last asked, 0 while it is not asked
	unacked int   // bytes unacknowledged at the last count
	taken   int64 // bytes that the kernel has taken since that count
}

// Asked reports whether the system is asked.
func (p *Progress) Asked() bool { return p.asked != 0 }

// Ask begins to ask. The system has said how many bytes are unacknowledged now.
func (p *Progress) Ask(now int64, unacked int) { p.asked, p.unacked, p.taken = now, unacked, 0 }

// Free notes that nothing waits for the kernel any more.
func (p *Progress) Free() { p.Stuck, p.asked = 0, 0 }

// Took counts n bytes that the kernel has taken, at once or when the peer has acknowledged them.
func (p *Progress) Took(n int, now int64, rate int) {
	if p.asked != 0 {
		p.taken += int64(n)
		return
	}
	p.putOff(int64(n), now, rate)
}

// Answer follows what the system has said, or its error. It reports whether the peer has taken anything since the last
// time, and extends the deadlines accordingly.
func (p *Progress) Answer(unacked int, err error, now int64, rate int) bool {
	p.asked = now
	if err != nil {
		unacked = p.unacked
	}
	n := p.taken + int64(p.unacked-unacked)
	if n <= 0 { // may be negative where the system counts more than bytes; it evens out
		return false
	}
	p.unacked, p.taken = unacked, 0
	p.putOff(n, now, rate)
	return true
}

// putOff extends the deadlines of a slow reader by the time that n bytes take at rate, in bytes per second. The starting
// times move to now at most; rate 0 moves them to now.
func (p *Progress) putOff(n, now int64, rate int) {
	credit := now
	if rate > 0 {
		credit = int64(min(float64(n)*float64(time.Second)/float64(rate), float64(now)))
	}
	if p.Stuck != 0 {
		p.Stuck = min(now, p.Stuck+credit)
	}
	if p.High != 0 {
		p.High = min(now, p.High+credit)
	}
}

// NextQuestion returns when to ask the system again, 0 for never. The interval is half the shortest limit, which means
// that a peer that stops is detected within one and a half limits.
func (p *Progress) NextQuestion(write, idle, backpressure time.Duration) int64 {
	limit := Earlier(int64(write), int64(idle))
	if p.High != 0 {
		limit = Earlier(limit, int64(backpressure))
	}
	return Due(p.asked, time.Duration(limit/2))
}
