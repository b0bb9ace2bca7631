package eddy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// connExt holds what only few connections need.
type connExt struct {
	closeReq   atomic.Pointer[closeRequest]
	limits     atomic.Pointer[Deadlines]       // of its own
	hopWaiting atomic.Pointer[strand]          // reads are paused until it has drained
	strands    atomic.Pointer[strand]          // written by the loop
	begun      requestClock                    // of Begin and End; written under mu
	answers    atomic.Int64                    // bytes of responses that count as queued and wait for their turn or the loop
	trace      atomic.Pointer[context.Context] // of messages without their own

	// Owned by the loop.
	timers   *Timer            // armed by handlers
	late     *CloseError       // will be the end when no write is on its way through a pool
	progress progress          // of a peer that takes less than there is for it
	zone     string            // of the peer's address
	current  *requestContext   // of what is being handled, if it was asked for
	kept     []*requestContext // of messages whose requests may be in flight, oldest first; they have deadlines
	tenant   string
	marks    outMarks
	inner    *innerInput    // of decoders that are not the first handler
	later    uint8          // what is to be done when the batch is over
	gathered []*writeFuture // whose bytes FlushHandlers hold until then; each counts it as a part
	farewell bool           // the FinishHandlers have been told
	holds    uint16         // HoldReads without their ReleaseReads
	parking  *parking
	rewiring rewiring

	mu       sync.Mutex
	writable *Future // somebody waits for it; kept with its error when the connection has ended
	done     chan struct{}
	contexts *requestContext // not ended
	requests requestList
	futures  futureList
	closing  *Future // of CloseFuture
	over     bool
}

func (c *Conn) extend() *connExt {
	if x := c.ext.Load(); x != nil {
		return x
	}
	x := new(connExt)
	if c.ext.CompareAndSwap(nil, x) {
		if c.shows(gone) {
			x.finish()
		}
		return x
	}
	return c.ext.Load()
}

// wakeWriters tells those who wait for the connection to be writable.
func (c *Conn) wakeWriters() {
	x := c.ext.Load()
	x.mu.Lock()
	w := x.writable
	c.unmark(writersWait)
	x.writable = nil
	x.mu.Unlock()
	if w != nil { // else the connection has ended
		w.settle(FutureSucceeded, nil, c.loop)
	}
}

// finish releases everybody: the connection has ended.
func (x *connExt) finish() {
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return
	}
	x.over = true
	if x.done != nil {
		close(x.done)
	}
	w, f := x.writable, x.closing
	x.mu.Unlock()
	if w != nil { // made before the end, so that the loop is here
		w.settle(FutureFailed, w.conn.closedError(), w.loop)
	}
	if f != nil {
		f.settle(FutureSucceeded, nil, f.loop)
	}
}

// awaitWritable returns the Future of the connection's being writable, which fails with its end. The caller looks at the
// queue after it: the loop looks at the bit after each change of the queue.
func (c *Conn) awaitWritable() *Future {
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writable == nil {
		x.writable = &Future{loop: c.loop, conn: c, fixed: true}
		if x.over {
			x.writable.state, x.writable.err = FutureFailed, c.closedError()
		} else {
			c.mark(writersWait)
		}
	}
	return x.writable
}

// saturatedPause is how long a waiting writer leaves a full task queue alone.
const saturatedPause = time.Millisecond

func (c *Conn) writeWhenWritable(ctx context.Context, msg any) error {
	for {
		wake := c.awaitWritable().Done()
		if err := c.closedError(); err != nil {
			return err
		}
		var retry <-chan time.Time
		if c.roomy() {
			err := c.submitWrite(nil, msg)
			if err != ErrSaturated { //nolint:errorlint // our own sentinel, returned bare
				return err
			}
			retry = time.After(saturatedPause)
		}
		select {
		case <-wake:
		case <-retry:
		case <-ctx.Done():
			if err := c.closedError(); err != nil { // which has often ended ctx, too
				return err
			}
			return ctx.Err()
		}
	}
}
