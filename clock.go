package eddy

import "time"

// Now returns the time as the loop sees it: monotonic, from an arbitrary start that is the same for all loops of a Group. The
// time stays the same during an iteration, so Now costs no look at the clock. Loop only.
func (ctx *Context) Now() time.Duration { return time.Duration(ctx.conn.loop.Now) }
