package eddy

import "time"

// wheelTick is the resolution of the deadlines of connections.
const wheelTick = 10 * time.Millisecond

// expireDeadlines is the phase that closes what is overdue and runs timers.
func (l *loop) expireDeadlines() {
	if l.deadlines.wheel.Len() > 0 {
		l.deadlines.wheel.Advance(l.Now, deadlineBudget, l.deadlines.expire)
	}
	l.RunTimers(deadlineBudget)
}

// expire handles one fired wheel entry; its payload is the connection's token.
func (l *loop) expire(_ wheelHandle, payload uint64) {
	if c := l.table.Lookup(payload); c != nil {
		c.timer = 0
		c.checkDeadlines()
	}
}
