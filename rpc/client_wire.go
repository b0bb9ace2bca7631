package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/balance"
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

// wire is one connection of a Client, and the handler in its pipeline that ends calls. Callers add requests to its outbox,
// and one task of the loop sends all that have come by then.
type wire struct {
	client  *Client
	link    *link
	conn    *eddy.Conn
	away    chan struct{} // closed when the connection takes no new calls
	secured chan error    // of a handshake; nil without one
	load    atomic.Int32  // calls that wait for their responses, for the balance

	// For the loop only.
	ctx   *eddy.Context
	told  *Link // nil without a Listener
	flush flusher
	alarm alarm
	pulse pulse

	mu     sync.Mutex
	state  wireState
	end    error // why the state is wireAway or wireClosed
	table  *pending.Table[call]
	out    outbox
	wanted bool  // a call was refused for want of room; the next unlock calls giveRoom
	proven bool  // the server has answered
	opened int64 // when the connection was made, on the client's clock
}

func newWire(cl *Client, conn *eddy.Conn) *wire {
	w := &wire{client: cl, conn: conn, away: make(chan struct{}), opened: cl.now()}
	w.table = pending.New[call](cl.o.MaxPending, w.opened)
	w.flush.run, w.alarm.run, w.pulse.run = w.send, w.expire, w.beat
	return w
}

// begin counts a call that waits for its response.
func (w *wire) begin() {
	w.load.Add(1)
	w.link.peer.node.Begin()
}

// uncount uncounts it.
func (w *wire) uncount() {
	w.load.Add(-1)
	w.link.peer.node.End()
}

// observe tells the balancer how a call that was sent has ended.
func (w *wire) observe(c *call, o balance.Outcome) {
	if w.client.balancer.Observes() && c.sent.Load() {
		w.link.peer.node.Observe(time.Duration(w.client.now()-c.sentAt), o)
	}
}

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
		w.begin()
	}
	post := w.out.push(c, c.id.Load())
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
	if w.out.bytes > 0 && w.out.bytes+len(c.buf) > o.MaxQueued {
		w.wanted = true
		return &limitError{kind: ErrClientFull, what: "bytes of requests wait for the connection", n: w.out.bytes + len(c.buf), limit: o.MaxQueued, option: "ClientOptions.MaxQueued"}
	}
	if c.op == frame.OneWay {
		w.out.oneWays++
		c.id.Store(uint64(w.out.oneWays)<<32 | pending.OneWaySlot)
		return nil
	}
	id, ok := w.table.Add(c, c.due)
	if !ok {
		w.wanted = true
		return &limitError{kind: ErrClientFull, what: "calls pending on the connection", n: w.table.Len(), limit: o.MaxPending, option: "ClientOptions.MaxPending"}
	}
	c.id.Store(id)
	return nil
}

// free takes a call out of the table. The caller gets the reference of the table. w.mu is held.
func (w *wire) free(id uint64) {
	w.table.Remove(id)
	w.freed()
}

// freed counts a call that has left the table. w.mu is held.
func (w *wire) freed() {
	w.uncount()
	w.retireIfIdle()
}

// drop takes a call that was given up off the connection and releases the reference of the table. With tell the server
// gets a CANCEL if the request was sent. Any goroutine.
func (w *wire) drop(c *call, tell bool) {
	w.mu.Lock()
	id := c.id.Load()
	if c.op == frame.OneWay || !w.live(queued{c, id}) {
		w.mu.Unlock()
		return
	}
	w.free(id)
	post := false
	switch {
	case !c.sent.Load():
		w.dropQueued(c)
	case tell && w.state != wireClosed && w.out.cancels < w.table.Limit:
		post = w.out.push(nil, id)
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
	w.out.bytes -= len(c.buf)
	w.out.dead++
	if w.out.dead >= 64 && w.out.dead >= w.out.len()/2 {
		w.out.sweep(func(q queued) bool {
			ended := q.call != nil && !w.live(q)
			if ended {
				q.call.release()
			}
			return ended
		})
	}
}

// live reports whether the call of an entry has not ended. w.mu is held.
func (w *wire) live(q queued) bool {
	if q.call.op == frame.OneWay {
		return true
	}
	c, _ := w.table.Get(q.id)
	return c == q.call
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
	w.out.sweep(func(q queued) bool {
		c := q.call
		switch {
		case c == nil:
			return false
		case c.op == frame.OneWay:
			unsent = append(unsent, c)
			return true
		case w.live(q):
			w.table.Remove(q.id)
			w.uncount()
			unsent = append(unsent, c)
		}
		c.release()
		return true
	})
	w.out.bytes = 0
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
	if w.client.life.ctx.Err() != nil {
		end = errClosed
	}
	tooLong, violated := tooLongResponse(err)
	w.mu.Lock()
	was := w.state
	w.state, w.end = wireClosed, end
	unsent := w.takeUnsent()
	long, _ := w.table.Get(tooLong)
	sent := w.table.TakeAll()
	for range sent {
		w.uncount()
	}
	w.out.queue = nil
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
			if end != errClosed { //nolint:errorlint // the same one
				w.observe(c, balance.Failed)
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
