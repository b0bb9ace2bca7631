package http1

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/trace"
)

// decoder is the first handler of every connection, and all connections share
// it. The state of one connection is in its context, as a *serverConn.
type decoder struct{ f *Factory }

// dispatcher hands complete requests to the pool.
type dispatcher struct{ f *Factory }

// connState says what the next bytes are.
type connState uint8

const (
	stateHead connState = iota // the head of the next request
	stateBody                  // the body of the request in hand
	stateWait                  // the next request, which waits for the response to the present one
	stateOver                  // ignored
)

// serverConn is one connection's state. Its loop owns it. Handlers' goroutines
// read draining, and tls once there is a request.
type serverConn struct {
	f        *Factory
	ctx      *eddy.Context
	conn     *eddy.Conn
	state    connState
	held     bool // reads are paused because the next request waits
	blank    bool // the empty line before this request was skipped
	served   int  // requests so far
	complete int  // size of a head that waits for its body because of the LoopHandler, else 0
	draining atomic.Bool

	head   *head     // of an incomplete request, else nil
	ex     *exchange // the request in hand, else nil
	ending eddy.Signal
	remote string
	client any                  // the client's network, nil until owner has asked and behind a Unix socket
	tls    *tls.ConnectionState // state of the TLS in front, else nil
}

var errDiscardLimit = errors.New("http1: more unread body than MaxDiscard")

// HandleOpen implements eddy.OpenHandler.
func (d *decoder) HandleOpen(ctx *eddy.Context) error {
	sc := &serverConn{f: d.f, ctx: ctx, conn: ctx.Conn()}
	ctx.SetState(sc)
	sc.ending.Init(sc.conn, sc.settleDone)
	return sc.conn.SetDeadlines(d.f.limitsOver(sc.conn.Deadlines()))
}

// Decode implements eddy.Decoder.
func (d *decoder) Decode(ctx *eddy.Context, view []byte) (int, error) {
	sc := ctx.State().(*serverConn)
	switch sc.state {
	case stateHead:
		return sc.decodeHead(view)
	case stateBody:
		return sc.decodeBody(view)
	case stateWait:
		sc.held = true
		sc.conn.PauseRead()
		return 0, nil
	}
	return len(view), nil
}

// decodeHead parses the head of a request and starts the request when the head is complete.
func (sc *serverConn) decodeHead(view []byte) (int, error) {
	if sc.head == nil {
		// RFC 9112 section 2.2: one empty line before a request is ignored.
		if !sc.blank && bytes.HasPrefix(view, []byte("\r\n")) {
			sc.blank = true
			return 2, nil
		}
		if !sc.blank && len(view) == 1 && view[0] == '\r' {
			return 0, nil
		}
		sc.head = sc.f.heads.Get().(*head)
		sc.head.reset(&sc.f.opts)
	}
	n := sc.complete
	if n == 0 {
		var err *requestError
		if n, err = sc.head.feed(view); err != nil {
			return 0, sc.refuse(err)
		}
	}
	if n == 0 {
		return 0, nil
	}
	if sc.f.opts.OnLoop != nil {
		if consumed, done := sc.onLoop(view, n); done {
			return consumed, nil
		}
		if sc.f.handler == nil {
			return 0, sc.refuse(sc.noHandler(sc.head))
		}
	}
	return sc.begin(view, n)
}

// begin makes the exchange of a complete head and passes it on, unless its route awaits the body. It returns how many bytes of
// view were used: the n bytes of the head, and those of what is chained to it.
func (sc *serverConn) begin(view []byte, n int) (used int, _ error) {
	ex, err := newExchange(sc, sc.head, view[:n])
	if err != nil {
		return n, sc.refuse(err)
	}
	sc.dropHead()
	sc.complete = 0
	sc.f.stats.requests.Add(1)
	sc.ex = ex
	sc.blank = false
	sc.state = stateWait
	if ex.body != nil {
		sc.state = stateBody
	}
	sc.conn.BeginRequest(&ex.ctx.request)
	await := ex.awaits()
	switch {
	case await == nil:
		used = sc.lookAhead(ex, view[n:])
		sc.ctx.FireRead(ex)
	case ex.expect:
		ex.continued = true // without ex.mu: no other goroutine knows ex yet
		ex.goOn()
	}
	if await != nil && await.within > 0 {
		if err := sc.awaitWithin(await); err != nil {
			return n, err
		}
	}
	if sc.state == stateBody && n == len(view) && !ex.expect { // a client that expects 100 Continue sends nothing yet
		sc.readingBody()
	}
	return n + used, nil
}

// HandleRead implements eddy.ReadHandler. The request goes to its pool, or is
// answered 503 when the pool takes no more requests, or no more of this client.
func (d *dispatcher) HandleRead(ctx *eddy.Context, msg any) error {
	ex, ok := msg.(*exchange)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	if err := ex.to.Pool.Submit(ex); err != nil {
		d.f.stats.busy.Add(1)
		ex.sc.refuseBusy(ex)
	}
	return nil
}

// refuseBusy answers 503 to a request that the pool has refused, and discards
// the request's body, so that the connection stays usable.
func (sc *serverConn) refuseBusy(ex *exchange) {
	ex.rest.closing = ex.rest.closing || !ex.keepAlive || !ex.http11 || ex.waitsContinue() || sc.draining.Load() || ex.tooMuchLeft()
	ex.tryAbort()
	ex.rest.out = sc.f.appendPlain(nil, plain{http.StatusServiceUnavailable, busyText, "Retry-After: " + httpserve.RetryAfter(ex.to.Pool) + "\r\n", ex.rest.closing, ex.w.isHead})
	ex.settle()
}

// decodeBody moves body bytes from view to the handler until view is used up or
// the pipe is full.
func (sc *serverConn) decodeBody(view []byte) (int, error) {
	ex, b := sc.ex, sc.ex.body
	used := 0
	for !b.frame.done() {
		room := b.Room()
		data, n, err := b.frame.next(view[used:], room)
		if err != nil {
			return 0, sc.failBody(err)
		}
		used += n
		b.keep(len(data))
		if dropped := b.Put(data); b.discard(dropped) {
			return 0, sc.giveUp(errDiscardLimit)
		}
		if n > 0 {
			continue
		}
		if used < len(view) && room == 0 && b.frame.state == bodyData {
			if !b.Hold() {
				continue
			}
			return used, nil
		}
		sc.readingBody()
		return used, nil
	}
	sc.readBody()
	if b.await != nil && b.await.late != nil {
		b.await.late.Stop()
	}
	b.End(io.EOF, b.frame.trailer)
	sc.state = stateWait
	switch {
	case ex.answered:
		sc.next()
	case b.await != nil:
		if ex.ctx.Trace != nil {
			ex.ctx.Trace.Enter(trace.QueueWait, ex.to.Pool.Name())
		}
		sc.ctx.FireRead(ex)
	}
	return used, nil
}

// next takes the next request of the chain in hand, or makes the connection ready for another one.
func (sc *serverConn) next() {
	if ex := sc.ex; ex.next != nil {
		sc.ex = ex.next
		if !ex.goesOn {
			ex.restartChain()
			sc.ctx.FireRead(ex.next)
		}
		return
	}
	sc.ex = nil
	sc.state = stateHead
	if sc.held {
		sc.held = false
		sc.conn.ResumeRead()
	}
}

// refuse answers a request that cannot be served and returns the error that
// closes the connection.
func (sc *serverConn) refuse(err *requestError) error {
	sc.dropHead()
	sc.state = stateOver
	sc.f.stats.protocolErrors.Add(1)
	sc.write(sc.f.appendPlain(nil, plain{status: err.status, text: err.msg, closing: true}))
	return eddy.WithReason(reasonFor(err.status), err)
}

// failBody ends a request whose body is malformed or too large. The answer says
// why, unless the handler has begun to answer.
func (sc *serverConn) failBody(err *requestError) error {
	sc.f.stats.protocolErrors.Add(1)
	sc.abort(err.status, err.msg, err)
	return eddy.WithReason(reasonFor(err.status), err)
}

// abort answers the request in hand from the loop, unless the handler has begun
// to answer. Further input is ignored; the caller closes the connection.
func (sc *serverConn) abort(status int, msg string, cause error) {
	ex := sc.ex
	sc.state = stateOver
	if !ex.answered && ex.tryAbort() { // before body.End below wakes the handler, which could answer first
		sc.write(sc.f.appendPlain(nil, plain{status: status, text: msg, closing: true, isHead: ex.w.isHead}))
	}
	if ex.body != nil {
		ex.body.End(cause, nil)
	}
}

// giveUp returns the error that closes a connection whose response was sent
// while the rest of the request is still coming.
func (sc *serverConn) giveUp(cause error) error {
	sc.state = stateOver
	return eddy.WithReason(eddy.CloseNormal, cause)
}

// reasonFor maps the status of a refused request to the close reason.
func reasonFor(status int) eddy.CloseReason {
	switch status {
	case http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
		return eddy.CloseFrameTooLarge
	}
	return eddy.CloseProtocolError
}

// write queues bytes and drops the error, which means that the connection is
// ending; HandleClose follows.
func (sc *serverConn) write(p []byte) { _ = sc.ctx.WriteBytes(p) }

func (sc *serverConn) dropHead() {
	if sc.head != nil {
		sc.f.heads.Put(sc.head)
		sc.head = nil
	}
}

func (sc *serverConn) remoteAddr() string {
	if sc.remote == "" {
		sc.remote = sc.conn.RemoteAddr().String()
	}
	return sc.remote
}

// HandleEvent implements eddy.EventHandler.
func (d *decoder) HandleEvent(ctx *eddy.Context, ev any) error {
	sc := ctx.State().(*serverConn)
	switch e := ev.(type) {
	case interface{ ConnectionState() tls.ConnectionState }: // the handshake event of package tlsx
		state := e.ConnectionState()
		sc.tls = &state
	case eddy.DrainEvent:
		sc.draining.Store(true) // the next response says close; the engine ends an idle connection
		sc.awaitFirst()
	case eddy.InputClosedEvent:
		sc.inputClosed()
	}
	ctx.FireEvent(ev)
	return nil
}

// firstGrace is how long a connection that has not sent a request yet outlives the start of a drain.
const firstGrace = 250 * time.Millisecond

// awaitFirst keeps a new connection open for firstGrace, as a request in flight would. The first request may be on its way,
// and a client that finds a new connection closed does not repeat the request by itself.
func (sc *serverConn) awaitFirst() {
	if sc.served > 0 {
		return
	}
	sc.conn.Begin()
	if _, err := sc.ctx.After(firstGrace, sc.conn.End); err != nil { // the connection is ending
		sc.conn.End()
	}
}

// inputClosed handles the end of the client's side. A complete request is still
// answered; an incomplete one ends the connection.
func (sc *serverConn) inputClosed() {
	switch {
	case sc.ex == nil:
	case sc.state == stateBody:
		sc.ex.body.End(io.ErrUnexpectedEOF, nil)
		sc.conn.CloseWith(eddy.CloseIncompleteRequest, fmt.Errorf("http1: the body ended early: %w", io.ErrUnexpectedEOF))
	default:
		last := sc.ex
		for last.next != nil {
			last = last.next
		}
		last.inputClosed.Store(true)
	}
}

// HandleClose implements eddy.CloseHandler. The handler of a request in hand
// learns of the close through the request's context and body.
func (d *decoder) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	sc, ok := ctx.State().(*serverConn)
	if !ok {
		return
	}
	sc.state = stateOver
	sc.dropHead()
	if ex := sc.ex; ex != nil {
		sc.ex = nil
		ex.disconnected()
		ex.dropChain()
	}
}
