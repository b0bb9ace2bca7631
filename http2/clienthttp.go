package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/executor"
)

// httpCall is the call of a request of net/http.
type httpCall struct {
	call
	req      *http.Request
	done     func(*http.Response, error)
	keepBody bool   // the body stays open after ErrNotHTTP2
	whole    []byte // of a body that was in memory; it goes out with the header section

	once sync.Once      // done
	resp *http.Response // the loop's
	got  *clientBody    // of resp, nil when it has none; the loop's

	guard  sync.Mutex
	body   *sentBody
	unhook func() bool // stops watching the request's context
}

func (t *Transport) newCall(r *http.Request, done func(*http.Response, error)) *httpCall {
	c := &httpCall{req: r, done: done, body: newSentBody(r.Body, len(r.Header["Expect"]) > 0)}
	c.t, c.of = t, c
	return c
}

// check validates the request and plans it, without sending anything.
func (c *httpCall) check() error {
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
	if c.key.secure {
		if err := c.t.prepareTLS(); err != nil {
			return err
		}
	}
	c.key.addr = withPort(u)
	return c.plan.init(c.req)
}

// gather takes a short body that lies in memory, as GetBody says, so that no goroutine has to read it. The caller may block.
func (c *httpCall) gather() error {
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
func (c *httpCall) begin() {
	if ctx := c.req.Context(); ctx.Done() != nil {
		c.guard.Lock()
		c.unhook = context.AfterFunc(ctx, func() { c.cancel(ctx.Err()) })
		c.guard.Unlock()
	}
	c.t.acquire(&c.call)
}

func (c *httpCall) send(st *clientStream) {
	st.out.init(requestBuffer)
	st.out.head(&fields{list: c.plan.list})
	switch {
	case !c.plan.hasBody:
		st.out.end(nil, nil, nil)
	case c.whole != nil:
		st.out.end(c.whole, nil, nil)
	default:
		b := c.sentBody()
		if c.plan.expect && c.t.ExpectContinueTimeout > 0 {
			st.timer, _ = st.cc.ctx.After(c.t.ExpectContinueTimeout, func() { b.allow(true) }) // an error means that the connection ends
		}
		go c.sendBody(st, b)
	}
}

func (c *httpCall) informed(st *clientStream, head *responseHead) {
	trace := httptrace.ContextClientTrace(c.req.Context())
	if head.status == http.StatusContinue {
		c.sentBody().allow(true)
		if trace != nil && trace.Got100Continue != nil {
			trace.Got100Continue()
		}
	}
	if trace != nil && trace.Got1xxResponse != nil {
		if err := trace.Got1xxResponse(head.status, textproto.MIMEHeader(head.header())); err != nil {
			st.cc.abort(st, CodeCancel, err)
		}
	}
}

func (c *httpCall) answered(st *clientStream, head *responseHead, end bool) error {
	c.sentBody().allow(head.status < 300)
	resp := &http.Response{
		Status: statusText(head.status) + " " + http.StatusText(head.status), StatusCode: head.status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: head.header(), Trailer: head.trailer, ContentLength: head.length, Body: http.NoBody, Request: c.req, TLS: st.cc.tls,
	}
	if head.length < 0 && (end && !st.empty || head.status == http.StatusNoContent) {
		resp.ContentLength = 0
	}
	c.resp = resp
	if !end {
		c.got = newClientBody(c, st, resp)
		resp.Body = c.got
		c.finish(resp, nil)
	}
	return nil
}

func (c *httpCall) add(data []byte) (back int, err error) { return c.got.add(data) }

func (c *httpCall) received(trailer []hpack.HeaderField) {
	if c.got == nil {
		return
	}
	c.got.trailer = headerOf(trailer)
	if c.plan.connect {
		c.got.end(io.EOF)
	}
}

func (c *httpCall) over(err error) {
	c.release(false)
	if c.got != nil {
		c.got.end(err)
	} else {
		c.finish(c.resp, nil)
	}
}

func (c *httpCall) failed(err error) {
	c.release(c.keepBody && errors.Is(err, ErrNotHTTP2)) // before finish, which lets the caller use the request's body again
	c.finish(nil, err)
}

// finish calls done with the outcome, once.
func (c *httpCall) finish(resp *http.Response, err error) { c.once.Do(func() { c.done(resp, err) }) }

// release gives up what the call holds, after the last byte of the response or the failure.
func (c *httpCall) release(keepBody bool) {
	if !keepBody {
		c.closeBody()
	}
	c.guard.Lock()
	unhook := c.unhook
	c.guard.Unlock()
	if unhook != nil {
		unhook()
	}
}

func (c *httpCall) closeBody() { c.sentBody().end() }

func (c *httpCall) sentBody() *sentBody {
	c.guard.Lock()
	defer c.guard.Unlock()
	return c.body
}

func (c *httpCall) repeatable() bool {
	switch c.req.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	_, has := c.req.Header["Idempotency-Key"]
	return has
}

func (c *httpCall) renew(lost error, again func()) {
	old := c.sentBody()
	switch {
	case c.whole != nil:
		again()
	case !c.plan.hasBody || old.withdraw():
		if c.plan.hasBody {
			c.replaceBody(old.ReadCloser)
		}
		again()
	case c.req.GetBody == nil:
		c.fail(lost)
	default:
		old.end()
		go func() { // GetBody may open a file
			body, err := c.req.GetBody()
			if err != nil {
				c.fail(errors.Join(lost, err))
				return
			}
			c.replaceBody(body)
			again()
		}()
	}
}

func (c *httpCall) replaceBody(body io.ReadCloser) {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.body = newSentBody(body, c.plan.expect)
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
func (c *httpCall) sendBody(st *clientStream, b *sentBody) {
	defer b.end()
	if c.plan.expect && !<-b.goOn || !b.state.CompareAndSwap(bodyUnread, bodyBegun) {
		return
	}
	trailer, err := c.copyBody(st, b)
	if err != nil {
		st.fault.CompareAndSwap(nil, &err)
	} else {
		st.out.end(nil, nil, trailer)
	}
	st.cc.post(st)
}

// copyBody hands the body to the stream piece by piece, and returns the trailer that follows.
func (c *httpCall) copyBody(st *clientStream, b *sentBody) (trailer *fields, err error) {
	p := pieces.Get().(*[bodyPiece]byte)
	defer pieces.Put(p)
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
