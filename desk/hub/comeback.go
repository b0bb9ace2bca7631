package hub

import (
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
)

// comeback spreads clients that are told to come again later. After a restart ten thousand clients send what they have
// at once. If all were told to come again within the same second, all would be refused once more, and the server would
// do nothing else. So each refusal gets a place behind the one before, at the pace at which a server of the target size
// works them off.
type comeback struct {
	last atomic.Int64 // Unix nanoseconds of the last place given away
}

const (
	comebackEvery = time.Second / 2000
	comebackMost  = 10 * time.Second
)

// place returns how long from now the next place is. Without a crowd that is 0.
func (c *comeback) place(now time.Time) time.Duration {
	for {
		last := c.last.Load()
		next := max(last+int64(comebackEvery), now.UnixNano())
		wait := time.Duration(next - now.UnixNano())
		if wait > comebackMost {
			return comebackMost // a client that comes too early is refused again
		}
		if c.last.CompareAndSwap(last, next) {
			return wait
		}
	}
}

// spread adds a place to the refusal of a command, if the refusal is for want of room.
func (c *comeback) spread(e *proto.Error, now time.Time) *proto.Error {
	if e.RetryMS == 0 || e.Reason != "" || (e.Code != proto.CodeBusy && e.Code != proto.CodeUnavailable) {
		return e
	}
	later := *e
	later.RetryMS += c.place(now).Milliseconds()
	return &later
}
