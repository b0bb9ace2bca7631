package eddy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/transport"
)

// connExt holds the state that only few connections need.
type connExt struct {
	conn *Conn

	closeReq atomic.Pointer[closeRequest]
	limits   atomic.Pointer[Deadlines] // limits set for this connection
	hops     connHops
	begun    requestClock // for Begin and End; written under mu
	reserved atomic.Int64 // bytes of Reserved messages, which count as queued
	values   connValues

	// Owned by the loop.
	timers list.List[reactor.Timer] // armed by handlers
	late   *CloseError              // the end, put off until no write is on its way through a pool
	marks  *outMarks                // nil until there is the first
	stream connStream
	rare   *connRare // nil until something in it is set

	mu       sync.Mutex
	writable *Future                   // set while somebody waits; kept with its error after the end
	contexts list.List[requestContext] // that have not ended
	requests list.List[Request]        // that have not ended, oldest first
	futures  futureList
	closing  *Future // of CloseFuture
	over     bool
}

// connRare is the part of connExt that idle connections of HTTP, WebSocket and TLS do without. Owned by the loop.
type connRare struct {
	progress transport.Progress // set for a slow peer
	zone     string             // of the peer's address; set before Init
	tenant   string
	current  *requestContext   // context of what is being handled, if asked for
	kept     []*requestContext // contexts with a deadline whose requests may be in flight, oldest first
	gathered []*writeFuture    // futures whose bytes FlushHandlers hold until the batch ends; each counts this as a part
	door     *door             // nil = none, see Context.SpliceTo
	rewiring rewiring
}

// rare returns the connRare of a connection, nil if it has none.
func (c *Conn) rare() *connRare {
	if x := c.ext.Load(); x != nil {
		return x.rare
	}
	return nil
}

// rarely returns the connRare of a connection, which may be new.
func (c *Conn) rarely() *connRare {
	x := c.extend()
	if x.rare == nil {
		x.rare = &connRare{}
	}
	return x.rare
}

// connValues are contexts whose values those of the connection's messages and requests have.
type connValues struct {
	trace atomic.Pointer[context.Context] // for messages without their own
	base  atomic.Pointer[connBase]        // set before Init if there is a ConnContext
}

// connHops is what a connection has on pools.
type connHops struct {
	waiting atomic.Pointer[strand] // strand that must drain before reads resume
	strands atomic.Pointer[strand] // written by the loop
	parking *parking               // messages that wait for room in a pool
}

// connStream is what handlers that look at bytes keep between them. Owned by the loop.
type connStream struct {
	inner    *innerInput // for decoders that are not the first handler
	holds    uint16      // calls of HoldReads without ReleaseReads
	later    uint8       // work for the end of the batch
	farewell bool        // the FinishHandlers have been told
}

func (c *Conn) extend() *connExt {
	if x := c.ext.Load(); x != nil {
		return x
	}
	x := &connExt{conn: c}
	if c.ext.CompareAndSwap(nil, x) {
		if c.shows(gone) {
			x.finish()
		}
		return x
	}
	return c.ext.Load()
}

// wakeWriters completes the Future that awaitWritable returned, because the connection is writable.
func (c *Conn) wakeWriters() {
	x := c.ext.Load()
	x.mu.Lock()
	w := x.writable
	c.unmark(writersWait)
	x.writable = nil
	x.mu.Unlock()
	if w != nil { // nil if the connection has ended
		w.settle(futureSucceeded, nil, c.loop)
	}
}

// finish completes everything that waits for the end of the connection.
func (x *connExt) finish() {
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return
	}
	x.over = true
	w, f := x.writable, x.closing
	x.mu.Unlock()
	if w != nil { // made before the end, so this runs on the loop
		w.settle(futureFailed, w.conn.closedError(), w.loop)
	}
	if f != nil {
		f.settle(futureSucceeded, nil, f.loop)
	}
}

// awaitWritable returns the Future that succeeds when the connection is writable and fails when it ends. Call it before
// looking at the queue, because the loop looks at the bit writersWait after each change of the queue.
func (c *Conn) awaitWritable() *Future {
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writable == nil {
		x.writable = &Future{loop: c.loop, conn: c, fixed: true}
		if x.over {
			x.writable.state, x.writable.err = futureFailed, c.closedError()
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
			if err := c.closedError(); err != nil { // the close has often ended ctx, too
				return err
			}
			return ctx.Err()
		}
	}
}
