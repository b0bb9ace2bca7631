package rpc

import (
	"errors"
	"sync/atomic"
	"time"
)

// waitMode is what a call waits for.
type waitMode uint8

const (
	waitForRoom    waitMode = iota // and for a connection, if ClientOptions.WaitForReady says so
	waitForAll                     // a connection, and room
	waitForNothing                 // but a connection that is being made
)

// waits are the calls of a client that no connection has. Client.mu guards it.
//
// Every wait for room is paired with one call of giveRoom. A wire that refuses a call notes that it is wanted, under its own lock. When bytes
// or slots become free there, it calls giveRoom. Those calls are counted, so that a call which is refused and then finds another count tries again
// instead of waiting for what has been.
type waits struct {
	conn  callList // for a connection
	room  callList // for room on one
	given atomic.Uint64
	full  error // why those in room wait
}

func (q *waits) len() int { return int(q.conn.n.Load() + q.room.n.Load()) }

// check refuses a call beyond the bounds.
func (q *waits) check(c *call, o *ClientOptions) error {
	bytes := q.conn.bytes + q.room.bytes
	switch {
	case q.len() >= o.MaxPending:
		return &limitError{kind: ErrClientFull, what: "calls wait for a connection or for room", n: q.len(), limit: o.MaxPending, option: "MaxPending"}
	case bytes > 0 && bytes+len(c.buf) > o.MaxWaiting:
		return &limitError{kind: ErrClientFull, what: "bytes of requests wait for a connection or for room", n: bytes + len(c.buf), limit: o.MaxWaiting, option: "MaxWaiting"}
	}
	return nil
}

// dispatch gives a call to a connection, lets it wait for one, or ends it. It takes over one reference. Any goroutine.
func (cl *Client) dispatch(c *call) {
	c.refs.Add(1) // whoever takes c over may be done with it before this is
	if err := cl.place(c); err != nil {
		if c.claim() {
			c.fail(err)
		}
		c.release()
	}
	c.release()
}

// errBehind is why a call is not offered to connections: others wait for room on them. It never reaches a caller.
var errBehind = errors.New("rpc: others wait for room")

// place is dispatch without the end. The caller has a reference of its own.
func (cl *Client) place(c *call) error {
	for {
		given, r := cl.waits.given.Load(), cl.routes.Load()
		full := errBehind
		if cl.waits.room.n.Load() == 0 || len(r.wires) == 0 || len(c.refused) > 0 { // one that fails over was in order before
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

// settle takes a call back that was given up on its way to the connection that has it now. The caller has a reference and no lock.
func (cl *Client) settle(c *call) {
	if w := c.wire.Load(); w != nil && c.claimed.Load() {
		w.drop(c, false)
	}
}

// wait lets a call wait: for room if full says why there is none, else for a connection. again says that something has changed since
// the caller loaded given and r.
func (cl *Client) wait(c *call, r *routes, given uint64, full error) (again bool, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	q, list := &cl.waits, &cl.waits.conn
	switch {
	case cl.ctx.Err() != nil:
		return false, c.error(cl.closedError(), ExecutedNo)
	case cl.routes.Load() != r, full != nil && q.given.Load() != given, full == errBehind && q.room.first == nil: //nolint:errorlint // the same one
		return true, nil
	case full == errAway: //nolint:errorlint // the same one
		// Its link makes another one or fails to, and tells those that wait.
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
	if c.claimed.Load() { // given up on its way here: its drop may have come too early
		list.remove(c)
		return false, errCancelled
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
			if l.state == linkConnecting || hopes {
				return true
			}
		}
	}
	return hopes
}

// whyNot is the end of a call that no connection takes. cl.mu is held.
func (cl *Client) whyNot(c *call) error {
	switch {
	case c.refusal != nil:
		return c.refusal
	case cl.failure != nil:
		return c.error(cl.failure, ExecutedNo)
	}
	return c.error(errNoAddress, ExecutedNo)
}

// giveRoom offers the calls that wait for room to the connections, in order, until those are full again. Any goroutine without a lock.
func (cl *Client) giveRoom() {
	q := &cl.waits
	var homeless, gone []*call
	cl.mu.Lock()
	q.given.Add(1)
	r := cl.routes.Load()
	for c := q.room.first; c != nil; c = q.room.first {
		c.refs.Add(1) // the connection may be done with it before this is
		taken, full := cl.try(c, r)
		if full != nil && cl.ctx.Err() == nil {
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
	for _, c := range homeless { // there is no connection for it any more
		cl.dispatch(c)
		c.release()
	}
}

// waitedEnough follows the deadline of a call that waits.
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

// stopWaiting takes a call out of its list, if it is in one, and calls end. The list's reference is released.
func (cl *Client) stopWaiting(c *call, end func()) {
	cl.mu.Lock()
	was := c.list
	first := was != nil && c.prev == nil
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
		cl.giveRoom() // there may have been enough for the next one
	}
}

// unwait removes a call and its timer. cl.mu is held.
func (cl *Client) unwait(c *call) {
	c.list.remove(c)
	t := c.timer
	c.timer = nil
	if t != nil && t.Stop() {
		cl.timers.Done()
		c.refs.Add(-1) // the timer's; the list still has one
	}
}

// retryWaiting gives those that wait to the connections there are now, lets them wait on, or ends them: something has changed.
func (cl *Client) retryWaiting() {
	cl.giveRoom()
	var all []*call
	cl.mu.Lock()
	for c := cl.waits.conn.first; c != nil; c = cl.waits.conn.first {
		cl.unwait(c)
		all = append(all, c)
	}
	cl.mu.Unlock()
	for _, c := range all {
		cl.dispatch(c)
	}
}

// callList is a list of calls. Client.mu guards it; n may be read without.
type callList struct {
	first, last *call
	n           atomic.Int32
	bytes       int // of their requests
}

func (q *callList) push(c *call) {
	c.list, c.prev, c.next = q, q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n.Add(1)
	q.bytes += len(c.buf)
}

func (q *callList) remove(c *call) {
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
	q.n.Add(-1)
	q.bytes -= len(c.buf)
}
