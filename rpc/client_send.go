package rpc

import (
	"bytes"
	"runtime"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
)

// queued is a request to send, or the CANCEL of a request that was sent.
type queued struct {
	call *call // nil for a CANCEL
	id   uint64
}

// outbox holds what waits to be sent. wire.mu guards it.
type outbox struct {
	queue   []queued
	next    int // index of the first entry of queue that was not sent
	bytes   int // of the requests
	dead    int // entries whose calls have ended
	cancels int // entries that are a CANCEL
	oneWays uint32
	posted  bool // a flush is on its way to the loop
	stalled bool // the kernel has not taken what was sent; resume flushes when it has
}

// keptQueue is the capacity up to which a list is kept for the next requests.
const keptQueue = 4096

func (o *outbox) len() int { return len(o.queue) - o.next }

// push adds a call, or without one a CANCEL, and reports whether the caller has to post a flush.
func (o *outbox) push(c *call, id uint64) (post bool) {
	if c == nil {
		o.cancels++
	} else {
		o.bytes += len(c.buf)
	}
	o.queue = append(o.queue, queued{c, id})
	post = !o.posted
	o.posted = true
	return post
}

// take takes out the first entry.
func (o *outbox) take() queued {
	q := o.queue[o.next]
	o.queue[o.next] = queued{}
	if o.next++; o.next == len(o.queue) {
		o.queue, o.next = o.queue[:0], 0
		if cap(o.queue) > keptQueue {
			o.queue = nil
		}
	}
	return q
}

// sweep takes out the entries for which gone returns true. No dead ones may be left.
func (o *outbox) sweep(gone func(q queued) bool) {
	rest := append(o.queue[:0], slices.DeleteFunc(o.queue[o.next:], gone)...)
	clear(o.queue[len(rest):])
	o.queue, o.next, o.dead = rest, 0, 0
}

// flusher is what a connection needs on its loop to send.
type flusher struct {
	run   func()
	batch []queued
	head  [frame.HeaderSize]byte // of frames without a payload
	woken int                    // callers whose calls have ended since the last flush
}

// post has the loop flush, and tries again later if its queue is full. A loop that has ended has called HandleClose.
func (w *wire) post() {
	if err := w.conn.Post(w.flush.run); err == eddy.ErrSaturated { //nolint:errorlint // returned bare
		w.client.later(retryPost, w.post)
	}
}

// gather lets callers that were woken a moment ago run before the queue is sent, because many of them call again. Without
// gather the scheduler runs the loop right after the first caller, which woke it, and each request is sent by itself.
// With 64 callers on one processor gather saves two thirds of the client's system calls per call. On the loop.
func (w *wire) gather() {
	woken := w.flush.woken
	w.flush.woken = 0
	if woken < 2 || !w.client.ownGroup {
		return
	}
	w.mu.Lock()
	few := w.out.len() < woken
	w.mu.Unlock()
	if few {
		runtime.Gosched()
	}
}

// send sends what is queued, up to the window. On the loop.
func (w *wire) send() {
	w.gather()
	w.mu.Lock()
	w.out.posted = false
	now := w.client.now()
	if w.state == wireClosed || w.out.stalled || w.conn.CloseError() != nil { // the queue of a connection that is ending goes elsewhere
		next, armed := w.table.Next()
		w.mu.Unlock()
		if armed {
			w.arm(next, now) // calls behind a full kernel have deadlines, too
		}
		return
	}
	room := sendWindow - int(w.conn.QueuedBytes())
	batch, size := w.flush.batch[:0], 0
	for w.out.len() > 0 && (size == 0 || size < room) {
		q := w.out.take()
		if n := w.prepare(q, now); n > 0 {
			batch, size = append(batch, q), size+n
		} else if q.call != nil {
			q.call.release()
		}
	}
	w.out.stalled = len(batch) > 0 && size >= room
	stalled := w.out.stalled
	next, armed := w.table.Next()
	w.unlock()
	if armed {
		w.arm(next, now)
	}
	w.write(batch, stalled)
	clear(batch)
	w.flush.batch = batch[:0]
	if cap(batch) > keptQueue {
		w.flush.batch = nil
	}
}

// prepare takes an entry out of the queue's counts and readies it for sending. The result is its length, 0 when it must
// not be sent. w.mu is held.
func (w *wire) prepare(q queued, now int64) int {
	c := q.call
	if c == nil {
		w.out.cancels--
		return frame.HeaderSize
	}
	if !w.live(q) {
		w.out.dead--
		return 0
	}
	n := len(c.buf)
	w.out.bytes -= n
	if c.claimed.Load() || c.due != 0 && c.due <= now {
		if c.op == frame.OneWay {
			w.client.oneWayFailed(c, c.error(errDeadline, ExecutedNo))
		}
		c.skipped = true // drop then finds that it is in no queue
		return 0
	}
	c.stamp(now)
	c.sent.Store(true)
	return n
}

// write writes a batch. If stalled is set, resume runs when the kernel has taken the last entry. On the loop.
func (w *wire) write(batch []queued, stalled bool) {
	for i, q := range batch {
		last := stalled && i == len(batch)-1
		c := q.call
		switch {
		case c == nil:
			head := frame.AppendHeader(w.flush.head[:0], q.id, uint8(frame.Cancel), 0)
			if last {
				w.ctx.WriteFuture(bytes.Clone(head)).OnDone(w.resume)
			} else {
				w.ended(w.ctx.WriteBytes(head))
			}
			continue
		case last || c.written != nil:
			w.writeTracked(c, last)
			if c.written == nil {
				w.given(c, nil)
			}
		case len(c.buf) > keptBody:
			c.given = true
			w.given(c, w.ctx.Write(c.buf))
		default:
			w.given(c, w.ctx.WriteBytes(c.buf))
		}
		c.release()
	}
}

// given counts a request that was given to the connection, or was refused by it.
func (w *wire) given(c *call, err error) {
	w.ended(err)
	switch {
	case c.op != frame.OneWay:
	case err != nil:
		w.client.oneWayFailed(c, c.error(lostError(eddy.CloseIOError, err), ExecutedNo))
	default:
		w.client.oneWaySent(c)
	}
}

// ended ends the connection after a failed write, if it is not ending: what is behind the request cannot be sent without it.
func (w *wire) ended(err error) {
	if err != nil {
		w.ctx.Fail(err)
	}
}

// writeTracked writes a request and tells Send, or resume if last is set, when the kernel has taken it.
func (w *wire) writeTracked(c *call, last bool) {
	c.given = true
	f := w.ctx.WriteFuture(c.buf)
	if c.written != nil {
		c.refs.Add(1)
		f.OnDone(func(f *eddy.Future) {
			if err := f.Err(); err != nil {
				w.client.oneWayFailed(c, c.error(lostError(eddy.CloseIOError, err), ExecutedMaybe))
			} else {
				w.client.oneWaySent(c)
			}
			c.release()
		})
	}
	if last {
		f.OnDone(w.resume)
	}
}

// resume goes on with the queue when the kernel has taken what was sent. On the loop.
func (w *wire) resume(f *eddy.Future) {
	if err := f.Err(); err != nil {
		w.ended(err)
		return // HandleClose takes care of the queue
	}
	w.mu.Lock()
	w.out.stalled = false
	w.mu.Unlock()
	w.send()
}
