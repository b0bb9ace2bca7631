package sqlstore

import (
	"sync/atomic"
	"time"
)

// clock is the clock of the data. All processes on one database have the database's.
type clock struct {
	own    func() time.Time // of a test, nil = none
	offset atomic.Int64     // of the database's clock from this machine's, in nanoseconds
}

// set takes note that the database's clock was at now, in microseconds since 1970, some time since asked; 0 = it has none of
// its own. What is known of that clock changes by as little as has to be.
func (c *clock) set(now int64, asked time.Time) {
	if now == 0 {
		return
	}
	at := time.UnixMicro(now)
	least, most := time.Until(at), at.Sub(asked)
	c.offset.Store(int64(min(max(time.Duration(c.offset.Load()), least), most)))
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
