package sqlstore

import (
	"sync/atomic"
	"time"
)

// clockStep is how far the clock of the database may be away from what is known of it before that is changed. Less is the
// time that an answer takes.
const clockStep = 10 * time.Millisecond

// clock is the clock of the data. All processes on one database have the database's.
type clock struct {
	own    func() time.Time // of a test, nil = none
	offset atomic.Int64     // of the database's clock from this machine's, in nanoseconds
}

// set takes the time of the database over, in microseconds since 1970, 0 = it has no clock of its own.
func (c *clock) set(now int64) {
	if now == 0 {
		return
	}
	offset := time.Until(time.UnixMicro(now))
	if (offset - time.Duration(c.offset.Load())).Abs() > clockStep {
		c.offset.Store(int64(offset))
	}
}

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// Now returns the time by which the data are dated: that of Options.Now, else of the database, else of this machine. Any
// goroutine may call it.
func (db *DB) Now() time.Time {
	if db.clock.own != nil {
		return db.clock.own()
	}
	return time.Now().Add(time.Duration(db.clock.offset.Load()))
}
