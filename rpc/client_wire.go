package rpc

import (
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/internal/pending"
)

// wireState says which calls a connection takes.
type wireState uint8

const (
	wireOpen   wireState = iota
	wireAway             // no new calls, since the server said GOAWAY or the address is gone; calls in flight go on
	wireClosed           // none: the connection has ended
)

// sendWindow is how many bytes of requests a connection is given before the kernel has taken them. The rest waits in the
// wire's queue, where a call can still be given up or go elsewhere. The window lies below the connection's high
// watermark, because above it a client stops reading: client and server could then wait for each other to read.
const sendWindow = 256 << 10

// wire is one connection of a Client, and the handler in its pipeline that ends calls. Callers add requests to its queue,
// and one task of the loop sends all that have come by then.
type wire struct {
	client *Client
	link   *link
	conn   *eddy.Conn
	away   chan struct{} // closed when the connection takes no new calls
	load   atomic.Int32  // calls that wait for their responses, for the balance

	flushFunc, expireFunc, beatFunc func()

	// For the loop only.
	ctx     *eddy.Context
	told    *Link // nil without a Listener
	batch   []queued
	head    [frame.HeaderSize]byte // of frames without a payload
	timer   *eddy.Timer
	timerAt int64 // when it fires
	silent  int   // heartbeats in a row without a byte of the server
	heard   bool
	pings   uint32
	woken   int // callers whose calls have ended since the last flush

	mu      sync.Mutex
	state   wireState
	end     error // why the state is wireAway or wireClosed
	table   *pending.Table[call]
	queue   []queued
	next    int // index of the first entry of queue that was not sent
	bytes   int // of the requests in queue
	dead    int // entries whose calls have ended
	cancels int // entries that are a CANCEL
	oneWays uint32
	posted  bool  // a flush is on its way to the loop
	wanted  bool  // a call was refused for want of room; the next unlock calls giveRoom
	stalled bool  // the kernel has not taken what was sent; resume flushes when it has
	proven  bool  // the server has answered
	opened  int64 // when the connection was made, on the client's clock
}

// queued is a request to send, or the CANCEL of a request that was sent.
type queued struct {
	call *call // nil for a CANCEL
	id   uint64
}

func newWire(cl *Client, conn *eddy.Conn) *wire {
	w := &wire{client: cl, conn: conn, away: make(chan struct{}), opened: cl.now()}
	w.table = pending.New[call](cl.o.MaxPending, w.opened)
	w.flushFunc, w.expireFunc, w.beatFunc = w.flush, w.expire, w.beat
	return w
}

// Load returns how many calls wait for their responses.
func (w *wire) Load() int32 { return w.load.Load() }

// HandleOpen implements eddy.OpenHandler.
func (w *wire) HandleOpen(ctx *eddy.Context) error {
	w.ctx = ctx
	w.link.wires.Add(1)
	return w.nextBeat()
}

// submit queues a call for the connection. Any goroutine. On success the wire has taken over one reference, and the
// caller must call Client.settle. On an error, errAway or a *limitError, the call stays with the caller.
func (w *wire) submit(c *call) error {
	w.mu.Lock()
	err := w.admit(c)
	if err != nil {
		w.mu.Unlock()
		return err
	}
	c.sent.Store(false)
	c.skipped = false
	c.wire.Store(w)
	if c.op != frame.OneWay {
		c.refs.Add(1) // the table's; the caller's becomes the queue's
		w.load.Add(1)
	}
	w.queue = append(w.queue, queued{c, c.id.Load()})
	w.bytes += len(c.buf)
	post := w.wantsFlush()
	w.mu.Unlock()
	if post {
		w.post()
	}
	return nil
}

// unlock releases w.mu after bytes or slots may have become free, and calls giveRoom if calls were refused for want of
// them. The caller must hold no other lock.
func (w *wire) unlock() {
	wanted := w.wanted
	w.wanted = false
	w.mu.Unlock()
	if wanted {
		w.client.giveRoom()
	}
}

// admit gives the call an id if there is room for it. w.mu is held.
func (w *wire) admit(c *call) error {
	if w.state != wireOpen {
		return errAway
	}
	o := &w.client.o
	if w.bytes > 0 && w.bytes+len(c.buf) > o.MaxQueued {
		w.wanted = true
		return &limitError{kind: ErrClientFull, what: "bytes of requests wait for the connection", n: w.bytes + len(c.buf), limit: o.MaxQueued, option: "MaxQueued"}
	}
	if c.op == frame.OneWay {
		w.oneWays++
		c.id.Store(uint64(w.oneWays)<<32 | pending.OneWaySlot)
		return nil
	}
	id, ok := w.table.Add(c, c.due)
	if !ok {
		w.wanted = true
		return &limitError{kind: ErrClientFull, what: "calls pending on the connection", n: w.table.Len(), limit: o.MaxPending, option: "MaxPending"}
	}
	c.id.Store(id)
	return nil
}

// wantsFlush marks a flush as posted, and reports whether the caller has to post it. w.mu is held.
func (w *wire) wantsFlush() bool {
	post := !w.posted
	w.posted = true
	return post
}

// post has the loop flush, and tries again later if its queue is full. A loop that has ended has called HandleClose.
func (w *wire) post() {
	if err := w.conn.Post(w.flushFunc); err == eddy.ErrSaturated { //nolint:errorlint // returned bare
		w.client.later(retryPost, w.post)
	}
}

// free takes a call out of the table. The caller gets the reference of the table. w.mu is held.
func (w *wire) free(id uint64) {
	w.table.Remove(id)
	w.freed()
}

// freed counts a call that has left the table. w.mu is held.
func (w *wire) freed() {
	w.load.Add(-1)
	w.retireIfIdle()
}

// drop takes a call that was given up off the connection and releases the reference of the table. With tell the server
// gets a CANCEL if the request was sent. Any goroutine.
func (w *wire) drop(c *call, tell bool) {
	w.mu.Lock()
	id := c.id.Load()
	if pending, _ := w.table.Get(id); pending != c {
		w.mu.Unlock()
		return
	}
	w.free(id)
	post := false
	switch {
	case !c.sent.Load():
		w.dropQueued(c)
	case tell && w.state != wireClosed && w.cancels < w.table.Limit:
		w.cancels++
		w.queue = append(w.queue, queued{nil, id})
		post = w.wantsFlush()
	}
	w.unlock()
	c.release()
	if post {
		w.post()
	}
}

// dropQueued counts the queue entry of an ended call as dead, and removes dead entries once there are many. w.mu is held.
func (w *wire) dropQueued(c *call) {
	if c.skipped {
		return
	}
	w.bytes -= len(c.buf)
	w.dead++
	if w.dead < 64 || w.dead < (len(w.queue)-w.next)/2 {
		return
	}
	live := w.queue[:0]
	for _, q := range w.queue[w.next:] {
		if q.call != nil && q.call.op != frame.OneWay {
			if c, _ := w.table.Get(q.id); c != q.call {
				q.call.release()
				continue
			}
		}
		live = append(live, q)
	}
	clear(w.queue[len(live):])
	w.queue, w.next, w.dead = live, 0, 0
}

// goAway handles GOAWAY: unsent requests go elsewhere, responses to the others are awaited. On the loop.
func (w *wire) goAway(e *frame.StatusError) {
	w.client.stats.goAways.Add(1)
	w.link.hold(e.RetryAfter)
	w.retire(e)
}

// retire makes the connection take no new calls, and sends unsent ones elsewhere. Any goroutine.
func (w *wire) retire(cause error) {
	w.mu.Lock()
	if w.state != wireOpen {
		w.mu.Unlock()
		return
	}
	w.state, w.end = wireAway, cause
	unsent := w.takeUnsent()
	w.retireIfIdle()
	close(w.away)
	w.mu.Unlock()
	w.client.unready(w)
	w.client.failOverAll(unsent, w, w.lost())
}

// takeUnsent empties the queue except for CANCELs and returns the calls in it that have not ended. Each comes with a
// reference, the table's, or the queue's if it is one-way. w.mu is held.
func (w *wire) takeUnsent() []*call {
	var unsent []*call
	rest := w.queue[:0]
	for _, q := range w.queue[w.next:] {
		c := q.call
		if c == nil {
			rest = append(rest, q)
			continue
		}
		if c.op == frame.OneWay {
			unsent = append(unsent, c)
			continue
		}
		if pending, _ := w.table.Get(q.id); pending == c {
			w.table.Remove(q.id)
			w.load.Add(-1)
			unsent = append(unsent, c)
		}
		c.release()
	}
	clear(w.queue[len(rest):])
	w.queue, w.next, w.dead, w.bytes = rest, 0, 0, 0
	return unsent
}

// retireIfIdle ends a connection that takes no new calls and has none left. w.mu is held.
func (w *wire) retireIfIdle() {
	if w.state == wireAway && w.table.Len() == 0 {
		w.conn.CloseAfterFlush(eddy.CloseNormal)
	}
}

// lost returns why the calls that the connection did not send have to go elsewhere.
func (w *wire) lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.end.(*frame.StatusError); ok { //nolint:errorlint // stored bare
		return &causeError{kinds: kindsDown, text: "the server takes no new requests: " + e.Error(), cause: e}
	}
	return w.end
}

// HandleClose implements eddy.CloseHandler: each call ends, or goes elsewhere if it was not sent.
func (w *wire) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	end := lostError(reason, err)
	if w.client.ctx.Err() != nil {
		end = w.client.closedError()
	}
	tooLong, violated := tooLongResponse(err)
	w.mu.Lock()
	was := w.state
	w.state, w.end = wireClosed, end
	unsent := w.takeUnsent()
	long, _ := w.table.Get(tooLong)
	sent := w.table.TakeAll()
	w.load.Store(0)
	w.queue = nil
	if was == wireOpen {
		close(w.away)
	}
	w.mu.Unlock()
	w.client.unready(w)
	w.client.wireEnded(w, reason, err)
	for _, c := range sent {
		if c.claim() {
			cause := end
			if c == long {
				cause = &causeError{kinds: []error{ErrTooLarge}, text: violated.Error(), cause: violated}
			}
			c.fail(c.error(cause, c.executed()))
		}
		c.release()
	}
	w.client.failOverAll(unsent, w, end)
	if w.ctx != nil {
		w.link.wires.Done()
	}
}
