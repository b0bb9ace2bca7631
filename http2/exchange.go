package http2

import (
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/limit"
)

// exchange is a request and its response as the handler sees them. The loop makes it, and a worker of the pool runs the
// handler on it.
type exchange struct {
	st    *stream
	to    http1.Route // its pool and class
	req   *http.Request
	w     response
	ctx   requestContext
	body  *body // nil when the request has none
	place executor.Place

	call       Call          // of Options.Calls, nil for none
	limit      *eddy.Timer   // of its timeout, nil for none
	inline     bool          // the handler runs on the loop
	began      time.Duration // time of the loop
	expect     bool          // the client waits for 100 Continue
	answered   bool          // by the loop
	retryAfter bool          // the answer of the loop says when to come back
	counted    bool          // the end of the request was counted
	keptOut    int           // bytes of the response counted by KeepInput
	forLoop    *requestHead  // of a request whose body is awaited for Options.OnLoop
	continued  atomic.Bool   // 100 Continue was sent
	writeBy    atomic.Pointer[time.Time]
	credit     atomic.Int64 // bytes of the body that the handler has taken, and the window has not got back
	done       atomic.Bool  // the handler has returned
	posted     atomic.Bool  // in serverConn.posted
	streams    bool         // the Call has sent; its goroutine owns it
}

// requestContext is the request's context. It is cancelled when the stream or the connection ends, when its BaseContext ends
// and when the handler returns.
type requestContext struct {
	httpserve.Context
	by   time.Time // the handler deadline, zero for none
	late atomic.Bool
}

// Deadline implements context.Context and returns the server's handler deadline, or that of the connection's BaseContext if
// that is earlier.
func (c *requestContext) Deadline() (time.Time, bool) {
	base, ok := c.Conn.BaseContext().Deadline()
	if !c.by.IsZero() && (!ok || c.by.Before(base)) {
		return c.by, true
	}
	return base, ok
}

// init fills the exchange of a new stream.
func (ex *exchange) init(st *stream) {
	sc := st.sc
	ex.st, ex.began = st, sc.ctx.Now()
	ex.place.Owner = sc.owner()
	ex.ctx.Conn, ex.ctx.Place = sc.conn, &ex.place
	ex.w.ex = ex
	if sc.watch.handler > 0 {
		ex.ctx.by = time.Now().Add(sc.watch.handler)
	}
}

// makeRequest makes what an http.Handler is given. ok is false for a malformed target.
func (ex *exchange) makeRequest(head *requestHead) (ok bool) {
	sc := ex.st.sc
	ex.req = sc.f.blank.WithContext(&ex.ctx)
	if !head.request(ex.req) {
		return false
	}
	ex.req.RemoteAddr, ex.req.TLS, ex.req.Body = sc.remoteAddr(), sc.tls, http.NoBody
	if !ex.st.recvEnd {
		ex.req.ContentLength = head.length
	}
	ex.w.init(ex)
	return true
}

// Place implements executor.Placed.
func (ex *exchange) Place() *executor.Place { return &ex.place }

const busyText = "the server is busy"

// Run implements executor.Runner and runs the handler. Exactly one response goes out, or the stream ends.
func (ex *exchange) Run() {
	returned := false
	defer func() {
		ex.ctx.Cancel()
		if !returned {
			ex.failed(recover())
		}
	}()
	switch {
	case ex.st.out.failure() != nil:
	case ex.call != nil:
		ex.serve()
		ex.finish()
		returned = true
		return
	case ex.place.Crowded():
		ex.st.sc.f.stats.busy.Add(1)
		ex.w.Header().Set("Retry-After", httpserve.RetryAfter(ex.to.Pool))
		http.Error(&ex.w, busyText, http.StatusServiceUnavailable)
	case ex.req.RequestURI == "*":
	default:
		ex.st.sc.f.handler.ServeHTTP(&ex.w, ex.req)
	}
	if ex.ctx.Err() != nil {
		ex.place.Waste()
	}
	ex.w.end()
	ex.finish()
	returned = true
}

// Drop implements executor.Job: it answers a request whose pool was stopped before it could run.
func (ex *exchange) Drop() { ex.Shed(executor.ErrClosed) }

// Class implements executor.Sheddable.
func (ex *exchange) Class() limit.Class { return ex.to.Class }

// Due implements executor.Sheddable.
func (ex *exchange) Due() time.Time {
	by, _ := ex.ctx.Deadline()
	return by
}

// Shed implements executor.Sheddable: it answers a request that its pool does not run after all.
func (ex *exchange) Shed(error) {
	st, f := ex.st, ex.st.sc.f
	f.stats.busy.Add(1)
	if st.out.take(handler) {
		head, body := f.busy(st)
		if st.out.head(head); ex.w.isHead {
			body = nil
		}
		st.out.end(body, nil, nil)
	}
	ex.ctx.Cancel()
	ex.finish()
}

// failed handles a handler that did not return. A panic is answered 500 when nothing was sent, and resets the stream
// otherwise. The panic goes on to the pool, which counts and logs it.
func (ex *exchange) failed(v any) {
	ex.w.abandon(v == nil || v == http.ErrAbortHandler) //nolint:errorlint // net/http compares it like this too
	ex.finish()
	if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // see above
		panic(v)
	}
}

// finish hands the end of the response to the loop.
func (ex *exchange) finish() {
	if ex.body != nil {
		_ = ex.body.Close() // never fails
	}
	ex.done.Store(true)
	ex.st.sc.post(ex.st)
}

// continueFields is the header section of 100 Continue.
var continueFields = []hpack.HeaderField{{Name: ":status", Value: "100"}} //nolint:gochecknoglobals // never written

// sendContinue answers Expect: 100-continue (RFC 9110 section 10.1.1) when the handler first reads, unless the final response
// has begun.
func (ex *exchange) sendContinue() {
	if !ex.expect || !ex.continued.CompareAndSwap(false, true) {
		return
	}
	ex.st.sc.f.countStatus(http.StatusContinue)
	ex.st.out.inform(&fields{list: continueFields})
	ex.st.sc.post(ex.st)
}

// answer makes the loop answer the request, unless the handler has begun to; then the stream is reset.
func (sc *serverConn) answer(st *stream, status int, text string) {
	if st.answered || st.gone {
		return
	}
	st.answered = true
	reason := &StreamError{Stream: st.id, Code: CodeCancel, Text: text}
	if !st.out.take(loop) {
		sc.abort(st, reason)
		return
	}
	head, body := sc.f.refusal(st, status, text)
	if st.retryAfter {
		head.comeBack(st)
	}
	if st.w.isHead {
		body = nil
	}
	st.out.replace(head, body, reason)
	if st.body != nil {
		st.body.End(reason, nil)
	}
	if !st.returned {
		st.ctx.Cancel()
	}
	sc.offer(st)
	sc.pump()
}

// Err implements context.Context and returns context.DeadlineExceeded when the handler deadline has passed.
func (c *requestContext) Err() error { return lateErr(c.Ended(), c.late.Load()) }
