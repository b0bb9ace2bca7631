package sqlstore

import (
	"sync/atomic"
	"time"
)

// clock is the clock of the data. All processes on one database have the database's, which goes on between two transactions
// by a clock that nobody sets: what the clock of a machine says, or jumps by, dates nothing.
type clock struct {
	own     func() time.Time // of a test, nil = none
	machine func() time.Time
	began   time.Time    // when the process opened the database; only the time since counts
	at      atomic.Int64 // what the database's clock said then, in nanoseconds since 1970, 0 = it has none of its own
}

// set takes note that the database's clock was at now, in microseconds since 1970, some time since asked; 0 = it has none of
// its own. What is known of that clock changes by as little as has to be.
func (c *clock) set(now int64, asked time.Time) {
	if now == 0 {
		return
	}
	at := time.UnixMicro(now).Add(-time.Since(c.began)).UnixNano()
	late := time.Since(asked)
	c.at.Store(min(max(c.at.Load(), at), at+int64(late)))
}

func (c *clock) now() time.Time {
	if c.own != nil {
		return c.own()
	}
	if at := c.at.Load(); at != 0 {
		return time.Unix(0, at).Add(time.Since(c.began))
	}
	return c.machine()
}

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return o.Machine()
}

// Now returns the time by which the data are dated: that of Options.Now, else of the database, else of this machine. Any
// goroutine may call it.
func (db *DB) Now() time.Time { return db.clock.now() }
