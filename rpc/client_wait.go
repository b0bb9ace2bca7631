package rpc

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
)

// waitMode is what a call waits for.
type waitMode uint8

const (
	waitForRoom    waitMode = iota // room, and a connection if ClientOptions.WaitForReady says so
	waitForAll                     // a connection and room
	waitForNothing                 // neither, except a connection that is being made
)

// waits holds the calls of a client that no connection has taken. Client.mu guards it.
//
// Every wait for room is followed by a call of giveRoom. A wire that refuses a call sets wanted under its own lock; when
// bytes or slots become free there, the wire calls giveRoom. given counts these calls. A call that was refused and then
// finds another count tries again, because the room may have been given already.
type waits struct {
	conn  callList // for a connection
	room  callList // for room on one
	given atomic.Uint64
	full  error // why the calls in room wait
}

func (q *waits) len() int { return int(q.conn.n.Load() + q.room.n.Load()) }

// check returns an error for a call beyond the bounds of o.
func (q *waits) check(c *call, o *ClientOptions) error {
	bytes := q.conn.bytes + q.room.bytes
	switch {
	case q.len() >= o.MaxPending:
		return &limitError{kind: ErrClientFull, what: "calls wait for a connection or for room", n: q.len(), limit: o.MaxPending, option: "ClientOptions.MaxPending"}
	case bytes > 0 && bytes+len(c.buf) > o.MaxWaiting:
		return &limitError{kind: ErrClientFull, what: "bytes of requests wait for a connection or for room", n: bytes + len(c.buf), limit: o.MaxWaiting, option: "ClientOptions.MaxWaiting"}
	}
	return nil
}

// dispatch gives a call to a connection, lets it wait, or ends it, and takes over one reference. Any goroutine.
func (cl *Client) dispatch(c *call) {
	c.refs.Add(1) // c may end and be released before place returns
	if err := cl.place(c); err != nil {
		if c.claim() {
			c.fail(err)
		}
		c.release()
	}
	c.release()
}

// errBehind says that a call was not offered to connections because others wait for room on them. Callers never see it.
var errBehind = errors.New("rpc: others wait for room")

// place gives a call to a connection or lets it wait; an error must end it. The caller has a reference of its own.
func (cl *Client) place(c *call) error {
	for {
		given, r := cl.waits.given.Load(), cl.routes.Load()
		full := errBehind
		if cl.waits.room.n.Load() == 0 || len(r.all) == 0 || len(c.refused) > 0 { // a call that fails over has had its turn
			var taken bool
			if taken, full = cl.try(c, r); taken {
				cl.settle(c)
				return nil
			}
		}
		again, err := cl.wait(c, r, given, full)
		if !again || err != nil {
			return err
		}
	}
}

// settle takes a call off its connection if it was given up on the way there. The caller has a reference and no lock.
func (cl *Client) settle(c *call) {
	if w := c.wire.Load(); w != nil && c.claimed.Load() {
		w.drop(c, false)
	}
}

// wait puts a call into a list: for room if full says why there is none, else for a connection. again says that something
// has changed since the caller loaded given and r. The caller then tries the call again.
func (cl *Client) wait(c *call, r *routes, given uint64, full error) (again bool, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	q, list := &cl.waits, &cl.waits.conn
	switch {
	case cl.life.ctx.Err() != nil:
		return false, c.error(errClosed, ExecutedNo)
	case cl.routes.Load() != r, full != nil && q.given.Load() != given, full == errBehind && q.room.First() == nil: //nolint:errorlint // the same one
		return true, nil
	case full == errAway: //nolint:errorlint // the same one
		// The link connects again or fails, and retries the calls that wait.
	case full != nil:
		if list = &q.room; full != errBehind { //nolint:errorlint // the same one
			q.full = full
		}
		if c.wait == waitForNothing {
			cl.stats.full.Add(1)
			return false, c.error(q.full, ExecutedNo)
		}
	case !cl.worthWaiting(c):
		return false, cl.whyNot(c)
	}
	if err := q.check(c, &cl.o); err != nil {
		cl.stats.full.Add(1)
		return false, c.error(err, ExecutedNo)
	}
	c.wire.Store(nil)
	list.push(c)
	if c.claimed.Load() { // given up meanwhile: stopWaiting may have come too early to find it
		list.remove(c)
		return false, errCanceled
	}
	if c.due != 0 {
		c.refs.Add(1) // the timer's
		c.timer = cl.later(time.Duration(max(0, c.due-cl.now())), func() { cl.waitedEnough(c) })
	}
	return false, nil
}

// worthWaiting reports whether a connection for the call may come. cl.mu is held.
func (cl *Client) worthWaiting(c *call) bool {
	if !cl.resolved {
		return true
	}
	hopes := len(c.refused) == 0 && (c.wait == waitForAll || c.wait == waitForRoom && cl.o.WaitForReady)
	for _, p := range cl.peers {
		if !c.mayTry(p) {
			continue
		}
		for _, l := range p.links {
			if l.connecting || hopes {
				return true
			}
		}
	}
	return hopes
}

// whyNot returns the error of a call that no connection takes. cl.mu is held.
func (cl *Client) whyNot(c *call) error {
	switch {
	case c.refusal != nil:
		return c.refusal
	case cl.failure != nil:
		return c.error(cl.failure, ExecutedNo)
	}
	return c.error(errNoAddress, ExecutedNo)
}

// giveRoom offers the calls that wait for room to the connections, in order, until these are full again. Any goroutine
// without a lock.
func (cl *Client) giveRoom() {
	q := &cl.waits
	var homeless, gone []*call
	cl.mu.Lock()
	q.given.Add(1)
	r := cl.routes.Load()
	for c := q.room.First(); c != nil; c = q.room.First() {
		c.refs.Add(1) // c may end and be released on the connection before this loop is done with it
		taken, full := cl.try(c, r)
		if full != nil && cl.life.ctx.Err() == nil {
			if full != errAway { //nolint:errorlint // the same one
				q.full = full
			}
			c.refs.Add(-1)
			break
		}
		cl.unwait(c)
		switch {
		case !taken:
			homeless = append(homeless, c)
		case c.claimed.Load():
			gone = append(gone, c)
		default:
			c.release()
		}
	}
	cl.mu.Unlock()
	for _, c := range gone {
		cl.settle(c)
		c.release()
	}
	for _, c := range homeless { // no connection is left
		cl.dispatch(c)
		c.release()
	}
}

// waitedEnough ends a call whose deadline has passed while it waited.
func (cl *Client) waitedEnough(c *call) {
	cl.mu.Lock()
	text, cause := "deadline exceeded while waiting for a connection; last failure: ", cl.failure
	if c.list == &cl.waits.room {
		text, cause = "deadline exceeded while waiting for room: ", cl.waits.full
	}
	cl.mu.Unlock()
	if cause == nil {
		cause = errors.New("none")
	}
	cl.stopWaiting(c, func() {
		if c.claim() {
			cl.stats.expired.Add(1)
			c.fail(c.error(&causeError{kinds: errDeadline.kinds, text: text + cause.Error(), cause: cause}, ExecutedNo))
		}
	})
	c.release()
}

// stopWaiting takes a call out of its list, calls end, and releases the list's reference. Without a list nothing happens.
func (cl *Client) stopWaiting(c *call, end func()) {
	cl.mu.Lock()
	was := c.list
	first := was != nil && was.First() == c
	if was != nil {
		cl.unwait(c)
	}
	cl.mu.Unlock()
	if was == nil {
		return
	}
	if end != nil {
		end()
	}
	c.release()
	if first && was == &cl.waits.room {
		cl.giveRoom() // the room may be enough for the next call
	}
}

// unwait takes a call out of its list and stops its timer. cl.mu is held.
func (cl *Client) unwait(c *call) {
	c.list.remove(c)
	t := c.timer
	c.timer = nil
	if t != nil && t.Stop() {
		cl.life.timers.Done()
		c.refs.Add(-1) // the timer's; the list still has one
	}
}

// retryWaiting dispatches the waiting calls again, since something has changed: each is sent, waits on, or ends.
func (cl *Client) retryWaiting() {
	cl.giveRoom()
	var all []*call
	cl.mu.Lock()
	for c := range cl.waits.conn.All() {
		cl.unwait(c)
		all = append(all, c)
	}
	cl.mu.Unlock()
	for _, c := range all {
		cl.dispatch(c)
	}
}

// callList is a list of calls. Client.mu guards it; n may be read without the lock.
type callList struct {
	list.List[call]
	n     atomic.Int32
	bytes int // of their requests
}

func (q *callList) push(c *call) {
	c.list = q
	q.Push(&c.place, c)
	q.n.Add(1)
	q.bytes += len(c.buf)
}

func (q *callList) remove(c *call) {
	c.list = nil
	q.Remove(&c.place)
	q.n.Add(-1)
	q.bytes -= len(c.buf)
}
