package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/limit"
)

// exchange is one request and its response. The loop makes it, a worker of the
// pool runs the handler on it, and the loop ends it.
type exchange struct {
	f      *Factory
	sc     *serverConn
	conn   *eddy.Conn
	to     Route // its pool and class
	req    http.Request
	url    url.URL   // of most requests
	values [8]string // of the fields of most requests
	w      response
	ctx    requestContext

	body  *body // nil when the request has none
	place executor.Place

	suspended bool // Resume answers; the handler's goroutine writes it

	// Fixed before the handler starts.
	http11    bool
	keepAlive bool // the client wants the connection to persist
	expect    bool // the client waits for 100 Continue

	raw  string    // the head
	next *exchange // in a chain

	goesOn bool // the worker runs next, too; fixed before done
	direct bool // something of the response was written before its end

	// Owned by the loop.
	answered bool // the response is complete and queued
	ended    bool // the request's End was called

	rest remains     // handed from the pool to the loop when the handler ends
	done atomic.Bool // rest is complete

	inputClosed atomic.Bool               // the client has sent its last byte
	writeBy     atomic.Pointer[time.Time] // the handler's own deadline for writes, nil for none

	mu        sync.Mutex
	owner     owner
	continued bool // 100 Continue was sent
}

// remains are what a handler leaves of its response when it ends.
type remains struct {
	out     []byte
	bufs    *buffers // the pooled memory that holds out, else nil
	closing bool     // the connection ends with this response
}

// owner says which side answers the request and is decided once.
type owner uint8

const (
	nobody  owner = iota
	handler       // the handler's status line is fixed
	loop          // the loop answered with an error, or the connection is over
)

// newExchange makes the exchange of the complete head h, which is the bytes of view.
func newExchange(sc *serverConn, h *head, view []byte) (*exchange, *requestError) {
	ex := &exchange{
		f: sc.f, sc: sc, conn: sc.conn, raw: string(view),
		http11: h.minor > 0, keepAlive: h.keepAlive(),
	}
	ex.place.Owner = sc.owner()
	ex.ctx.Conn, ex.ctx.Place = sc.conn, &ex.place
	ex.req = *sc.f.blank.WithContext(&ex.ctx)
	ex.req.URL = &ex.url
	if err := h.request(&ex.req, ex.values[:], ex.raw); err != nil {
		ex.ctx.Cancel()
		return nil, err
	}
	sc.served++
	if most := sc.f.opts.MaxRequests; most > 0 && sc.served >= most {
		ex.keepAlive = false
	}
	ex.req.RemoteAddr = sc.remoteAddr()
	ex.req.TLS = sc.tls
	ex.req.Body = http.NoBody
	ex.w.init(ex)
	to := sc.f.route(&ex.req)
	ex.to, ex.ctx.Class = to, to.Class
	if h.hasBody() {
		if err := ex.initBody(h, to); err != nil {
			ex.ctx.Cancel()
			return nil, err
		}
	}
	return ex, nil
}

// initBody prepares the body that h announces. If to.Await is set, the handler starts only when the body is there.
func (ex *exchange) initBody(h *head, to Route) *requestError {
	b := &body{ex: ex, length: max(h.length, 0)}
	b.frame.init(h)
	limit := ex.f.opts.BodyBuffer
	if await := to.Await; await > 0 {
		if h.length > int64(await) {
			return tooLarge(http.StatusRequestEntityTooLarge, "body", int64(await))
		}
		b.await = &awaited{within: to.Within}
		b.frame.most = min(b.frame.most, int64(await))
		limit = await
		if !h.chunked {
			limit = int(h.length)
		}
	}
	if h.chunked {
		b.length = -1
	}
	b.Init(ex.conn, nil, limit)
	ex.expect = h.expect && ex.http11 && ex.sc.complete == 0 // complete > 0: onLoop has sent 100 Continue already
	ex.body, ex.req.Body = b, b
	return nil
}

// Run implements executor.Runner, running the handler and handing the response
// to the loop, and then those of the chain. Exactly one response goes out for
// each, or the connection ends.
func (ex *exchange) Run() {
	since := time.Time{}
	if ex.next != nil {
		since = time.Now()
	}
	ex.serve(since, ex.place.Crowded())
	for e := ex; e.goesOn; e = e.next {
		e.next.ctx.Place = ex.ctx.Place
		e.next.serve(since, false)
	}
}

// serve runs one handler.
func (ex *exchange) serve(since time.Time, crowded bool) {
	returned := false
	defer func() {
		if returned && ex.suspended {
			return // Resume does the rest
		}
		ex.ctx.Cancel()
		if !returned {
			ex.failed(recover())
		}
	}()
	if ex.conn.CloseError() == nil {
		switch {
		case crowded:
			ex.tooMany()
		case ex.req.RequestURI == "*":
			ex.w.Header().Set("Content-Length", "0") // OPTIONS for the server as a whole
		default:
			ex.f.handler.ServeHTTP(&ex.w, &ex.req)
		}
	}
	if !ex.suspended {
		if ex.conn.CloseError() != nil {
			ex.ctx.Place.Waste()
		}
		ex.w.end()
		ex.goesOn = ex.continues(since)
		ex.finish()
	}
	returned = true
}

// Drop implements executor.Job: it answers a request whose pool was stopped before it could run.
func (ex *exchange) Drop() { ex.drop(true) }

// Shed implements executor.Sheddable: it answers a request whose pool is adaptive and does not run it after all. A body that may still come ends the connection.
func (ex *exchange) Shed(error) { ex.drop(ex.body != nil || !ex.keepAlive || !ex.http11) }

// Class implements executor.Sheddable.
func (ex *exchange) Class() limit.Class { return ex.to.Class }

// Due implements executor.Sheddable.
func (ex *exchange) Due() time.Time {
	by, _ := ex.ctx.Deadline()
	return by
}

func (ex *exchange) drop(closing bool) {
	ex.f.stats.busy.Add(1)
	if ex.tryAbort() {
		ex.rest.out = ex.f.appendPlain(nil, plain{http.StatusServiceUnavailable, busyText, "Retry-After: " + httpserve.RetryAfter(ex.to.Pool) + "\r\n", closing, ex.w.isHead})
		ex.rest.closing = closing
	}
	ex.ctx.Cancel()
	ex.finish()
}

// failed handles a handler that did not return. A panic is answered 500 when
// nothing was written. The panic goes on to the pool, which counts and logs it.
func (ex *exchange) failed(v any) {
	quiet := v == nil || v == http.ErrAbortHandler //nolint:errorlint // net/http compares it like this too
	switch {
	case ex.w.hijacked, ex.suspended:
		ex.conn.Close(eddy.CloseInternalError)
	case quiet:
		ex.conn.Close(eddy.CloseNormal)
	case ex.tryAbort():
		ex.rest.out = ex.f.appendPlain(nil, plain{status: http.StatusInternalServerError, text: "the handler failed", closing: true, isHead: ex.w.isHead})
		ex.rest.closing = true
		ex.finish()
	default:
		ex.conn.CloseAfterFlush(eddy.CloseInternalError)
	}
	if !quiet {
		panic(v)
	}
}

// finish hands the end of the response to the loop.
func (ex *exchange) finish() {
	if ex.w.hijacked {
		return
	}
	if ex.body != nil {
		_ = ex.body.Close() // never fails
	}
	end := &ex.sc.ending
	if ex.direct { // the end comes behind what was written, also when an earlier end is still on its way
		end = new(eddy.Signal)
		end.Init(ex.conn, func() { ex.done.Store(true); ex.sc.settleDone() })
	} else {
		ex.done.Store(true)
	}
	_ = end.Raise() // fails only when the loop has ended, which has closed the connection
}

// settleDone settles the request in hand if its handler has ended, and those of the chain behind it.
func (sc *serverConn) settleDone() {
	for {
		ex := sc.ex
		if ex == nil || ex.answered || !ex.done.Load() {
			return
		}
		if ex.settle(); sc.ex == ex {
			return // the connection ends, or the body of the request is still coming
		}
	}
}

// settle ends the exchange on the loop: it queues the rest of the response and
// lets the connection go on or close.
func (ex *exchange) settle() {
	sc := ex.sc
	if len(ex.rest.out) > 0 {
		sc.write(ex.rest.out)
	}
	if ex.rest.bufs != nil {
		ex.f.buffers.Put(ex.rest.bufs)
	}
	ex.rest.out, ex.rest.bufs = nil, nil
	ex.endRequest()
	if sc.ex != ex || sc.state == stateOver {
		return
	}
	ex.answered = true
	switch {
	case ex.rest.closing || ex.inputClosed.Load() || ex.tooMuchLeft():
		sc.state = stateOver
		sc.conn.CloseAfterFlush(sc.finalReason())
	case sc.state == stateWait:
		sc.next()
	default:
		_ = ex.body.Close() // drops the rest of the body; never fails
	}
}

// finalReason returns the close reason of a connection that ends with its response.
func (sc *serverConn) finalReason() eddy.CloseReason {
	if sc.draining.Load() {
		return eddy.CloseServerShutdown
	}
	return eddy.CloseNormal
}

// endRequest ends the accounting of the request. Loop only.
func (ex *exchange) endRequest() {
	ex.ctx.Cancel()
	ex.body.unkeep()
	if !ex.ended {
		ex.over()
	}
}

// over ends the accounting of the request, once. Loop only.
func (ex *exchange) over() {
	ex.ended = true
	ex.ctx.request.End()
	if ex.ctx.Trace != nil {
		ex.ctx.Trace.Written(ex.conn)
	}
}

// disconnected tells the handler that its connection is gone. Loop only.
func (ex *exchange) disconnected() {
	ex.tryAbort()
	if ex.body != nil {
		ex.body.End(io.ErrUnexpectedEOF, nil)
	}
	ex.endRequest()
}

// tryAbort makes the loop the owner of the answer, unless an owner is decided.
func (ex *exchange) tryAbort() bool { return ex.take(loop) }

func (ex *exchange) take(who owner) bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.owner != nobody {
		return false
	}
	ex.owner = who
	return true
}

// sendContinue answers Expect: 100-continue (RFC 9110 section 10.1.1) when the
// handler first reads, unless the final response has begun.
func (ex *exchange) sendContinue() {
	if !ex.expect {
		return
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.continued || ex.owner != nobody {
		return
	}
	ex.continued = true
	s := new(eddy.Signal)
	s.Init(ex.conn, ex.goOn)
	_ = s.Raise() // fails only when the loop has ended, which has ended the body
}

// goOn tells the client to send its body and starts the body's deadline. Loop only.
func (ex *exchange) goOn() {
	sc := ex.sc
	if sc.ex != ex || sc.state == stateOver {
		return
	}
	ex.f.countStatus(http.StatusContinue)
	sc.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	if sc.state == stateBody {
		sc.readingBody()
	}
}

// waitsContinue reports whether the client was never told to send its body. Such
// a client may or may not send it, so the next bytes could be body or a request.
func (ex *exchange) waitsContinue() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.expect && !ex.continued
}

// tooMuchLeft reports whether the rest of the body is longer than MaxDiscard.
func (ex *exchange) tooMuchLeft() bool {
	return ex.body != nil && ex.body.Missing(ex.body.length) > ex.f.opts.MaxDiscard
}

// write sends a part of the response, bytes or a file, from the handler's goroutine. While the client does not read, write
// blocks until the handler's own deadline and gives up the place in the pool. The connection's write deadline ends a client
// that takes too little. write takes ownership of msg, whatever the result.
func (ex *exchange) write(msg any) error {
	ex.direct = true
	by := ex.writeBy.Load()
	if by != nil && !time.Now().Before(*by) {
		if m, ok := msg.(eddy.Releaser); ok {
			m.Release()
		}
		return os.ErrDeadlineExceeded
	}
	if _, file := msg.(*eddy.File); !file && ex.conn.Writable() { // a File that Write refuses cannot be written again
		if shared, ok := msg.(*buf.Shared); ok {
			shared.Retain()
			defer shared.Release()
		}
		err := ex.conn.Write(msg)
		if !errors.Is(err, eddy.ErrSaturated) {
			return err
		}
	}
	ex.ctx.Place.Leave()
	defer ex.ctx.Place.Return()
	if by == nil {
		return ex.conn.WriteContext(&ex.ctx, msg)
	}
	ctx, cancel := context.WithDeadline(&ex.ctx, *by)
	defer cancel()
	err := ex.conn.WriteContext(ctx, msg)
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}
