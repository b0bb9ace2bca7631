package http2

import (
	"context"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// call is one request of a Transport, until the response has come in full or the request has failed.
type call struct {
	t     *Transport
	of    caller
	key   hostKey
	plan  requestPlan
	tries int           // to send it once more
	spare *clientStream // memory for the first attempt, nil for none

	mu    sync.Mutex
	ended bool  // fail was called
	stop  error // why the call has to end, nil if it has not
	stage stage
	st    *clientStream // of stageStream
}

// stage is where a call is.
type stage uint8

const (
	stageWaiting stage = iota // for a stream
	stageStream
	stagePause // before the next attempt
	stageOver
)

// caller is what a call is made for: a request of net/http, or a Request. Its methods are called on the loop, failed on any
// goroutine.
type caller interface {
	// send adds the header section and the body to the stream, or begins to.
	send(st *clientStream)
	// informed takes a 1xx response.
	informed(st *clientStream, head *responseHead)
	// answered takes the header section of the response; after end nothing follows. The error resets the stream.
	answered(st *clientStream, head *responseHead, end bool) error
	// add takes bytes of the response's body. back is how many the window gets back at once. The error resets the stream.
	add(data []byte) (back int, err error)
	// received takes the trailer of a response that has come in full; over follows, but for a tunnel.
	received(trailer []hpack.HeaderField)
	// over is the last call after answered: err is io.EOF for a whole response.
	over(err error)
	// failed is the only call without answered.
	failed(err error)
	// repeatable reports whether processing the request twice is harmless (RFC 9110 section 9.2.2).
	repeatable() bool
	// renew makes the request ready to be sent once more and calls again, or fails the call with lost.
	renew(lost error, again func())
}

// cancel ends the call at any stage. Any goroutine.
func (c *call) cancel(err error) {
	c.mu.Lock()
	if c.stop == nil {
		c.stop = err
	}
	at := c.stage
	c.mu.Unlock()
	switch at {
	case stageWaiting:
		c.t.stopWaiting(c)
	case stagePause:
		c.fail(err)
	}
	c.tell()
}

// tell lets the loop look at the stream, if there is one. Any goroutine.
func (c *call) tell() {
	c.mu.Lock()
	at, st := c.stage, c.st
	c.mu.Unlock()
	if at == stageStream {
		st.cc.post(st)
	}
}

func (c *call) stopCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// enter begins a stage, or returns the reason if the call has to end. st is that of stageStream.
func (c *call) enter(to stage, st *clientStream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stage, c.st = to, st
	}
	return c.stop
}

// fail ends the call with err, or with the reason that the call was stopped for. Later failures change nothing.
func (c *call) fail(err error) {
	c.mu.Lock()
	was := c.ended
	c.ended = true
	if c.stop != nil {
		err = c.stop
	}
	c.mu.Unlock()
	if !was {
		c.of.failed(err)
	}
}

// chance says whether a request that was not answered may be sent once more.
type chance uint8

const (
	never   chance = iota
	perhaps        // the server may have processed it: only if that is harmless
	surely         // the server has certainly not processed it
	refused        // as surely, but the server wants some time
)

// The most times that a request is sent once more, and how long the first time waits after REFUSED_STREAM.
const (
	maxRetries  = 3
	refusedWait = 10 * time.Millisecond
)

// lost handles a call whose stream ended before a byte of the answer was there. Loop only, or when the loop has ended.
func (c *call) lost(cc *clientConn, err error, again chance) {
	if c.stopCause() != nil || again == never || c.tries >= maxRetries || again == perhaps && !c.of.repeatable() {
		c.fail(err)
		return
	}
	c.of.renew(err, func() { c.retry(cc, again) })
}

// retry sends the request once more, after some time if the server wants it.
func (c *call) retry(cc *clientConn, why chance) {
	c.tries++
	c.t.conns.mu.Lock()
	c.t.conns.stats.Retried++
	c.t.conns.mu.Unlock()
	again := func() {
		if c.enter(stageWaiting, nil) != nil {
			c.fail(c.stopCause())
			return
		}
		c.t.acquire(c)
	}
	if why != refused {
		again()
		return
	}
	if c.enter(stagePause, nil) != nil {
		c.fail(c.stopCause())
		return
	}
	closed := context.AfterFunc(c.t.run.base, func() { c.fail(ErrTransportClosed) }) // timers end with their loop
	err := cc.conn.Loop().Post(func() {
		_, _ = cc.conn.Loop().After(refusedWait<<(2*(c.tries-1)), func() { // an error means that the loop ends
			if closed() {
				again()
			}
		})
	})
	if err != nil {
		c.fail(err)
	}
}
