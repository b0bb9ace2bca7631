package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// call is one request of a Transport, until the response has come in full or the request has failed.
type call struct {
	t        *Transport
	req      *http.Request
	done     func(*http.Response, error)
	key      hostKey
	plan     requestPlan
	keepBody bool   // the body stays open after ErrNotHTTP2
	whole    []byte // of a body that was in memory; it goes out with the header section

	tries int // to send it once more

	mu       sync.Mutex
	body     *sentBody
	unhook   func() bool // stops watching the request's context
	finished bool        // done was called
	stop     error       // why the call has to end, nil if it has not
	abort    func()      // ends the present stage; nil while the call waits for a stream
}

func (t *Transport) newCall(r *http.Request, done func(*http.Response, error)) *call {
	return &call{t: t, req: r, done: done, body: newSentBody(r.Body, len(r.Header["Expect"]) > 0)}
}

// check validates the request and plans it, without sending anything.
func (c *call) check() error {
	if err := c.t.start(); err != nil {
		return err
	}
	u := c.req.URL
	if u == nil || u.Host == "" {
		return errors.New("http2: the request has no URL with a host")
	}
	c.key.secure = u.Scheme == "https"
	if u.Scheme != "http" && !c.key.secure {
		return fmt.Errorf("http2: unsupported scheme %q", u.Scheme)
	}
	if c.key.secure && c.t.Secure == nil {
		return ErrNoTLS
	}
	c.key.addr = withPort(u)
	return c.plan.init(c.req)
}

// gather takes a short body that lies in memory, as GetBody says, so that no goroutine has to read it. The caller may block.
func (c *call) gather() error {
	n := c.plan.length
	if c.req.GetBody == nil || len(c.req.Trailer) > 0 || n <= 0 || n > bodyPiece || c.plan.expect || c.plan.connect || c.keepBody {
		return nil
	}
	b := make([]byte, n+1)
	k, err := io.ReadFull(c.req.Body, b)
	switch {
	case err == nil:
		return fmt.Errorf("http2: the request body is longer than its ContentLength of %d", n)
	case err != io.EOF && err != io.ErrUnexpectedEOF: //nolint:errorlint // what io.ReadFull returns
		return err //nolint:wrapcheck // the caller's own
	case int64(k) < n:
		return fmt.Errorf("http2: the request body is %d bytes shorter than its ContentLength of %d", n-int64(k), n)
	}
	c.whole = b[:n:n]
	return nil
}

// begin starts the request after check. The call's done function gets the outcome.
func (c *call) begin() {
	c.t.conns.mu.Lock()
	c.t.conns.stats.Requests++
	c.t.conns.mu.Unlock()
	if ctx := c.req.Context(); ctx.Done() != nil {
		c.mu.Lock()
		c.unhook = context.AfterFunc(ctx, func() { c.cancel(ctx.Err()) })
		c.mu.Unlock()
	}
	c.t.acquire(c)
}

// cancel ends the call at any stage. Any goroutine.
func (c *call) cancel(err error) {
	c.mu.Lock()
	if c.stop == nil {
		c.stop = err
	}
	abort := c.abort
	c.mu.Unlock()
	if abort == nil {
		c.t.stopWaiting(c)
		return
	}
	abort()
}

func (c *call) stopCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// enter begins a stage that abort ends and returns the reason if the call has to end, else nil.
func (c *call) enter(abort func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = abort
	return c.stop
}

// fail ends the call with err, or with the reason that the call was stopped for, unless done was already called.
func (c *call) fail(err error) {
	if cause := c.stopCause(); cause != nil {
		err = cause
	}
	c.over(c.keepBody && errors.Is(err, ErrNotHTTP2)) // before finish, which lets the caller use the request's body again
	c.finish(nil, err)
}

// finish calls done with the outcome, once.
func (c *call) finish(resp *http.Response, err error) {
	c.mu.Lock()
	was := c.finished
	c.finished = true
	c.mu.Unlock()
	if !was {
		c.done(resp, err)
	}
}

// over releases what the call holds, after the last byte of the response or the failure.
func (c *call) over(keepBody bool) {
	if !keepBody {
		c.closeBody()
	}
	c.mu.Lock()
	unhook := c.unhook
	c.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

func (c *call) closeBody() { c.sentBody().end() }

func (c *call) sentBody() *sentBody {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body
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
	if c.stopCause() != nil || again == never || c.tries >= maxRetries || again == perhaps && !c.repeatable() {
		c.fail(err)
		return
	}
	c.tries++
	wait := time.Duration(0)
	if again == refused {
		wait = refusedWait << (2 * (c.tries - 1))
	}
	old := c.sentBody()
	switch {
	case c.whole != nil:
		c.retry(cc, wait)
	case !c.plan.hasBody || old.withdraw():
		if c.plan.hasBody {
			c.replaceBody(old.ReadCloser)
		}
		c.retry(cc, wait)
	case c.req.GetBody == nil:
		c.fail(err)
	default:
		old.end()
		go func() { // GetBody may open a file
			body, berr := c.req.GetBody()
			if berr != nil {
				c.fail(errors.Join(err, berr))
				return
			}
			c.replaceBody(body)
			c.retry(cc, wait)
		}()
	}
}

func (c *call) replaceBody(body io.ReadCloser) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body = newSentBody(body, c.plan.expect)
}

// retry sends the request once more after wait.
func (c *call) retry(cc *clientConn, wait time.Duration) {
	c.t.conns.mu.Lock()
	c.t.conns.stats.Retried++
	c.t.conns.mu.Unlock()
	again := func() {
		if c.enter(nil) != nil {
			c.fail(c.stopCause())
			return
		}
		c.t.acquire(c)
	}
	if wait == 0 {
		again()
		return
	}
	if c.enter(func() { c.fail(c.stopCause()) }) != nil {
		c.fail(c.stopCause())
		return
	}
	closed := context.AfterFunc(c.t.run.base, func() { c.fail(ErrTransportClosed) }) // timers end with their loop
	err := cc.conn.Loop().Post(func() {
		_, _ = cc.conn.Loop().After(wait, func() { // an error means that the loop ends
			if closed() {
				again()
			}
		})
	})
	if err != nil {
		c.fail(err)
	}
}

// repeatable reports whether processing the request twice is harmless (RFC 9110 section 9.2.2).
func (c *call) repeatable() bool {
	switch c.req.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	_, has := c.req.Header["Idempotency-Key"]
	return has
}

// sentBody is the request's body in one attempt to send it.
type sentBody struct {
	io.ReadCloser
	once  sync.Once
	goOn  chan bool    // receives whether the body may be sent; nil if it does not wait for 100 Continue
	state atomic.Int32 // whether its goroutine has begun to read
}

// The states of a sentBody.
const (
	bodyUnread = iota
	bodyBegun
	bodyWithdrawn // another attempt has it
)

func newSentBody(r io.ReadCloser, expect bool) *sentBody {
	b := &sentBody{ReadCloser: r}
	if expect {
		b.goOn = make(chan bool, 1)
	}
	return b
}

// end closes the body, as every RoundTripper must. A goroutine that waits in the body's Read or for leave to send is
// released.
func (b *sentBody) end() {
	b.once.Do(func() {
		b.allow(false)
		if b.ReadCloser != nil && b.state.Load() != bodyWithdrawn {
			_ = b.ReadCloser.Close() // nobody can do anything about an error
		}
	})
}

// allow says whether the body may be sent. The first answer stands.
func (b *sentBody) allow(yes bool) {
	select {
	case b.goOn <- yes:
	default:
	}
}

// withdraw takes the body from an attempt that has not begun to read it, and reports whether that was so.
func (b *sentBody) withdraw() bool {
	if !b.state.CompareAndSwap(bodyUnread, bodyWithdrawn) {
		return false
	}
	b.end()
	return true
}

// bodyPiece is how many bytes of a request body are read at once, and requestBuffer how many may wait for the windows.
const (
	bodyPiece     = 16 << 10
	requestBuffer = 64 << 10
)

// pieces holds the buffers of goroutines that read bodies.
var pieces = sync.Pool{New: func() any { return new([bodyPiece]byte) }} //nolint:gochecknoglobals // memory only

// sendBody reads the request's body for st, on a goroutine of its own that ends with the body, the stream or the call.
func (st *clientStream) sendBody() {
	c, b := st.call, st.sending
	defer b.end()
	if c.plan.expect && !<-b.goOn || !b.state.CompareAndSwap(bodyUnread, bodyBegun) {
		return
	}
	trailer, err := st.copyBody(b)
	if err != nil {
		st.fault.CompareAndSwap(nil, &err)
	} else {
		st.out.end(nil, nil, trailer)
	}
	st.cc.post(st)
}

// copyBody hands the body to the stream piece by piece, and returns the trailer that follows.
func (st *clientStream) copyBody(b *sentBody) (trailer *fields, err error) {
	p := pieces.Get().(*[bodyPiece]byte)
	defer pieces.Put(p)
	c := st.call
	for sent := int64(0); ; {
		n, err := b.Read(p[:])
		if sent += int64(n); c.plan.length >= 0 && sent > c.plan.length {
			return nil, fmt.Errorf("http2: the request body is longer than its ContentLength of %d", c.plan.length)
		}
		if err := st.queue(p[:n]); err != nil {
			return nil, err
		}
		switch {
		case err == io.EOF: //nolint:errorlint // readers return it bare
			if c.plan.length > sent {
				return nil, fmt.Errorf("http2: the request body is %d bytes shorter than its ContentLength of %d", c.plan.length-sent, c.plan.length)
			}
			return c.plan.trailerFields(c.req.Trailer)
		case err != nil:
			return nil, err
		}
	}
}

// queue hands p to the loop and waits while there is no room.
func (st *clientStream) queue(p []byte) error {
	var place executor.Place // of no pool
	for len(p) > 0 {
		n, err := put(&st.out, p)
		if err != nil {
			return err
		}
		st.cc.post(st)
		if p = p[n:]; len(p) > 0 {
			if err := st.out.await(nil, &place); err != nil {
				return err
			}
		}
	}
	return nil
}
