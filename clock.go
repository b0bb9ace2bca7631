package eddy

import "time"

// Now returns the time as the loop sees it: monotonic, from an arbitrary start that is the same for all loops of a Group, and
// the same during an iteration. It costs no look at the clock. Loop only.
func (ctx *Context) Now() time.Duration { return time.Duration(ctx.conn.loop.now) }
