package http1

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-eddy/eddy"
)

const clientName = "http1.client"

// clientState says what the next bytes of a server are.
type clientState uint8

const (
	clientIdle clientState = iota // nothing may come
	clientHead
	clientInBody
	clientSending // the response is over, the end of the request's body is awaited
	clientOver
)

// bodyGrace is how long a connection waits for the end of a body whose response has come. A server that answers what it has
// read to the end may be faster than the goroutine that sends it.
const bodyGrace = time.Second

// maxInformational bounds the 1xx responses before a final response.
const maxInformational = 8

// clientConn is one connection of a Transport, and the only handler of its pipeline behind those of TLS. The connection's
// loop owns clientConn.
type clientConn struct {
	t       *Transport
	conn    *eddy.Conn
	ctx     *eddy.Context
	key     hostKey // fixed before the first request
	state   clientState
	evicted bool // the pool no longer counts the connection; Transport.mu guards this field
	served  int  // requests before the present one

	call     *call // the request in hand, else nil
	tunnel   bool  // the answer to CONNECT is awaited
	head     *head
	frame    bodyFrame
	framing  responseFraming
	body     *clientBody
	informal int
	begun    bool // inflight has begun and has to be ended
	received bool // a byte of the response has come
	sent     bool // the whole request was written
	sending  *sentBody
	news     eddy.Signal // runs hear; other goroutines raise it
	keep     bool        // the server keeps the connection
	inflight eddy.Request
	timer    *eddy.Timer
}

var (
	errUnsolicited = errors.New("http1: the server sent bytes that nobody had asked for")
	errCut         = fmt.Errorf("http1: the connection ended inside a response: %w", io.ErrUnexpectedEOF)
)

// initConn builds the pipeline of a new connection. connOf finds the handler again when the attempt has succeeded.
func (t *Transport) initConn(p *eddy.Pipeline) error {
	cc := &clientConn{t: t, conn: p.Conn()}
	cc.news.Init(cc.conn, cc.hear)
	if err := p.Add(clientName, cc); err != nil {
		return err
	}
	t.conns.mu.Lock()
	defer t.conns.mu.Unlock()
	t.conns.fresh[p.Conn()] = cc
	return nil
}

// connOf returns the handler of a connection that was just made, and forgets it. The result is nil if the connection has
// ended.
func (t *Transport) connOf(c *eddy.Conn) *clientConn {
	t.conns.mu.Lock()
	defer t.conns.mu.Unlock()
	cc := t.conns.fresh[c]
	delete(t.conns.fresh, c)
	return cc
}

// HandleOpen implements eddy.OpenHandler and is called again when TLS was put in front.
func (cc *clientConn) HandleOpen(ctx *eddy.Context) error {
	cc.ctx = ctx
	return nil
}

// prepare makes a new connection ready for its first request. For https it asks the proxy for a tunnel, if there is one,
// and starts TLS. Loop only.
func (cc *clientConn) prepare(c *call) {
	cc.call = c
	if err := c.enter(func(err error) { cc.abort(c, err) }); err != nil {
		cc.conn.CloseWith(eddy.CloseNormal, err)
		return
	}
	if !cc.key.secure {
		cc.begin(c)
		return
	}
	cc.limit(cc.t.ConnectTimeout, "the handshake was not done")
	if cc.key.proxy == "" {
		cc.secure()
		return
	}
	cc.openTunnel()
}

// openTunnel asks the proxy for a connection to the host (RFC 9110 section 9.3.6).
func (cc *clientConn) openTunnel() {
	b := []byte("CONNECT " + cc.key.addr + " HTTP/1.1\r\nHost: " + cc.key.addr + "\r\n")
	if cc.key.auth != "" {
		b = append(b, "Proxy-Authorization: "+cc.key.auth+"\r\n"...)
	}
	cc.expectHead()
	cc.tunnel = true
	cc.write(append(b, "\r\n"...))
}

// secure puts the handlers of TLS in front.
func (cc *clientConn) secure() {
	p := cc.ctx.Pipeline()
	err := p.Remove(clientName)
	if err == nil {
		name, _, _ := splitTarget(cc.key.addr)
		err = cc.t.secure()(p, name, cc.secured)
	}
	if err == nil {
		err = p.Add(clientName, cc)
	}
	if err != nil { // HandleClose may not be called
		cc.conn.CloseWith(eddy.CloseHandshakeFailed, err)
		cc.ended()
		cc.lostBy(err, false)
	}
}

// secured handles the outcome of the TLS handshake. Loop only.
func (cc *clientConn) secured(err error) {
	switch c := cc.call; {
	case err != nil:
		cc.conn.CloseWith(eddy.CloseHandshakeFailed, fmt.Errorf("http1: TLS with %s: %w", cc.key.addr, err))
	case c != nil:
		cc.begin(c)
	}
}

// take gives an idle connection a request. Any goroutine.
func (cc *clientConn) take(c *call) {
	err := cc.conn.Post(func() {
		if cc.state != clientIdle || cc.conn.CloseError() != nil {
			c.lost(ErrStale, true, false)
			return
		}
		cc.call = c
		if err := c.enter(func(err error) { cc.abort(c, err) }); err != nil {
			cc.call = nil
			cc.t.release(cc)
			c.fail(err)
			return
		}
		cc.begin(c)
	})
	switch {
	case err == nil:
	case errors.Is(err, eddy.ErrSaturated):
		cc.t.release(cc)
		c.fail(err)
	default:
		c.lost(ErrStale, true, false)
	}
}

// abort ends a request, and its connection if that still serves the request. Any goroutine.
func (cc *clientConn) abort(c *call, err error) {
	c.stopWith(err)
	_ = cc.news.Raise() // fails when the loop has ended, and the connection with it
}

// hear handles news from other goroutines: the request in hand has to end, or its body was sent. Loop only.
func (cc *clientConn) hear() {
	if c := cc.call; c != nil {
		if err := c.stopCause(); err != nil {
			cc.conn.CloseWith(eddy.CloseNormal, err)
			return
		}
	}
	if b := cc.sending; b != nil && b.done.Load() {
		cc.sending = nil
		cc.bodySent()
	}
}

// begin sends the request. Loop only.
func (cc *clientConn) begin(c *call) {
	cc.stopTimer()
	cc.expectHead()
	cc.conn.BeginRequest(&cc.inflight)
	cc.begun = true
	cc.sent = !c.plan.hasBody
	cc.write(c.plan.head)
	if cc.sent {
		cc.limitHeader()
		return
	}
	c.mu.Lock()
	b := c.body
	c.mu.Unlock()
	if c.plan.expect && cc.t.ExpectContinueTimeout > 0 {
		cc.timer, _ = cc.ctx.After(cc.t.ExpectContinueTimeout, func() { b.allow(true) }) // an error means that the connection ends
	}
	cc.sending = b
	go c.sendBody(cc, b)
}

// bodySent runs when the last byte of the request was written. Loop only.
func (cc *clientConn) bodySent() {
	cc.sent = true
	switch cc.state {
	case clientHead:
		cc.limitHeader()
	case clientSending:
		cc.stopTimer()
		cc.state = clientIdle
		cc.t.release(cc)
	}
}

func (cc *clientConn) limitHeader() {
	cc.stopTimer()
	cc.limit(cc.t.ResponseHeaderTimeout, "the header of the response did not arrive")
}

// limit ends the connection when d has passed.
func (cc *clientConn) limit(d time.Duration, what string) {
	if d <= 0 {
		return
	}
	cc.timer, _ = cc.ctx.Conn().Loop().After(d, func() { // an error means that the loop ends
		cc.conn.CloseWith(eddy.CloseHandlerTimeout, &timeoutError{what, d})
	})
}

func (cc *clientConn) stopTimer() {
	if cc.timer != nil {
		cc.timer.Stop()
		cc.timer = nil
	}
}

// write queues bytes and drops the error, which means that the connection is ending; HandleClose follows.
func (cc *clientConn) write(p []byte) { _ = cc.ctx.WriteBytes(p) }

// Decode implements eddy.Decoder.
func (cc *clientConn) Decode(_ *eddy.Context, view []byte) (int, error) {
	switch cc.state {
	case clientIdle, clientSending:
		return 0, eddy.WithReason(eddy.CloseProtocolError, errUnsolicited)
	case clientHead:
		return cc.decodeHead(view)
	case clientInBody:
		return cc.decodeBody(view)
	}
	return len(view), nil
}

// decodeBody moves body bytes to the reader until view is used up or the pipe is full.
func (cc *clientConn) decodeBody(view []byte) (int, error) {
	used := 0
	for !cc.frame.done() {
		room := cc.body.Room()
		data, n, err := cc.frame.next(view[used:], room)
		if err != nil {
			return 0, cc.garbage(err)
		}
		used += n
		if err := cc.body.add(data); err != nil {
			return 0, eddy.WithReason(eddy.CloseNormal, err)
		}
		if n > 0 {
			continue
		}
		if used < len(view) && room == 0 && !cc.body.Hold() {
			continue
		}
		return used, nil
	}
	body := cc.body
	cc.complete()
	body.end(io.EOF, cc.frame.trailer)
	return used, nil
}

// complete runs after the last byte of a response, and frees the connection for the next request, or closes it.
func (cc *clientConn) complete() {
	c := cc.call
	cc.endRequest()
	cc.call, cc.body = nil, nil
	cc.served++
	_ = c.enter(nil)
	switch {
	case !cc.keep:
		cc.state = clientOver
		cc.conn.Close(eddy.CloseNormal)
		c.over()
	case !cc.sent: // the rest of a body would be read as the next request
		cc.state = clientSending
		cc.timer, _ = cc.ctx.After(bodyGrace, func() { cc.conn.Close(eddy.CloseNormal) }) // an error means that the connection ends
		c.over()
	default:
		cc.state = clientIdle
		c.over()
		cc.t.release(cc)
	}
}

func (cc *clientConn) endRequest() {
	if cc.begun {
		cc.begun = false
		cc.inflight.End()
	}
}

// ended takes the connection out of the pool, once.
func (cc *clientConn) ended() {
	if cc.key != (hostKey{}) {
		cc.t.gone(cc.key, cc)
		cc.key = hostKey{}
	}
}

// HandleClose implements eddy.CloseHandler.
func (cc *clientConn) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	cc.t.connOf(cc.conn) // drops the entry if dialed has not asked for it
	head := cc.state == clientHead
	cc.state = clientOver
	cc.stopTimer()
	cc.dropHead()
	cc.ended()
	byPeer := false
	switch reason {
	case eddy.CloseServerShutdown:
		err = ErrTransportClosed
	case eddy.ClosePeerClosed, eddy.CloseIncompleteRequest:
		if cc.body != nil && cc.framing == untilEnd && reason == eddy.ClosePeerClosed {
			cc.endBody(io.EOF)
			return
		}
		byPeer, err = true, errCut
	case eddy.CloseIOError:
		byPeer = true
	}
	if err == nil {
		err = &eddy.CloseError{Reason: reason}
	}
	if head && byPeer && !cc.received {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	cc.lostBy(err, byPeer)
}

// lostBy tells the call in hand that the connection is gone. stale says that the server may never have seen the request.
func (cc *clientConn) lostBy(err error, stale bool) {
	cc.endRequest()
	c := cc.call
	if c == nil {
		return
	}
	if cause := c.stopCause(); cause != nil {
		err = cause
	}
	if cc.body != nil {
		cc.endBody(err)
		return
	}
	cc.call = nil
	_ = c.enter(nil)
	c.lost(err, stale && cc.served > 0 && !cc.received, true)
}

func (cc *clientConn) endBody(err error) {
	c, body := cc.call, cc.body
	cc.endRequest()
	cc.call, cc.body = nil, nil
	body.end(err, nil)
	c.over()
}
