package http2

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// Followed is the answer of Options.Calls for one request.
type Followed struct {
	http1.Route

	// Timeout is the time from the request's header section to its answer. The request's context has it as its deadline.
	// Afterwards the context ends, and the server answers 504. If the handler has begun to answer, its reads and writes fail
	// instead, so that it can end what it has begun. 0 = none but Server.HandlerTimeout.
	Timeout time.Duration

	// OnLoop runs the handler on the connection's loop. It must not block, so set Await for a request that may have a body.
	// A panic ends the connection.
	OnLoop bool

	Call Call // follows the request; nil = nothing does
}

// Call follows a request; see Options.Calls. Its methods must not block.
type Call interface {
	// Refused is asked for an answer that is not the handler's: 503 when the pool takes no more or after the server's
	// HandlerTimeout, 504 after Followed.Timeout, 408 and 413 for a body that stalls or is too long, 500 after a panic. w has
	// the status and the text that go out if Refused changes nothing. On the loop, but after a panic where the handler ran.
	Refused(w *http1.LoopResponse, status int, why string)
	// Over is called once, on the loop: the request was answered or has failed, and its handler has returned or was never
	// called.
	Over()
}

// CallFrom returns the Call of the request that ctx belongs to, nil if there is none. Any goroutine.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(httpserve.TicketKey{}).(Call)
	return c
}

// follow asks Options.Calls about a new request, in place of Options.Route.
func (sc *serverConn) follow(st *stream) http1.Route {
	to := sc.f.opts.Calls(st.req)
	if to.Call != nil {
		st.call, st.ctx.Ticket = to.Call, to.Call
	}
	st.inline = to.OnLoop
	if timeout := to.Timeout; timeout > 0 {
		if by := time.Now().Add(timeout); st.ctx.by.IsZero() || by.Before(st.ctx.by) {
			st.ctx.by = by
		}
		st.limit, _ = sc.ctx.After(timeout, func() { sc.expire(st, timeout) }) // an error means that the connection is ending
	}
	return to.Route
}

// expire ends a request whose timeout has passed. A handler that has begun to answer can end its answer itself: its context,
// its reads and its writes fail. If the client does not take what waits for it, the stream is reset.
func (sc *serverConn) expire(st *stream, timeout time.Duration) {
	if st.gone {
		return
	}
	if !st.out.begun() {
		sc.late(st, http.StatusGatewayTimeout, "the request was not answered within "+timeout.String(), CodeCancel)
		return
	}
	if st.answered || st.returned {
		return
	}
	sc.f.stats.timeouts.Add(1)
	st.ctx.late.Store(true)
	if st.out.size() > 0 {
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeCancel, Text: errLate.Error()})
		return
	}
	st.ctx.Cancel()
	if st.body != nil {
		st.body.End(context.DeadlineExceeded, nil)
	}
}

// refusal returns the header section and the body of the server's own answer to st, as the Call words it.
func (f *Factory) refusal(st *stream, status int, text string) (*fields, []byte) {
	w := httpserve.LoopResponse{Status: status, Body: append([]byte(text), '\n')}
	if st.call != nil {
		st.call.Refused((*http1.LoopResponse)(&w), status, text)
	}
	f.countStatus(w.Status)
	if len(w.Fields) == 0 {
		return f.plain(w.Status, len(w.Body)), w.Body
	}
	h := &fields{list: []hpack.HeaderField{{Name: ":status", Value: statusText(w.Status)}, {Name: "date", Value: f.dateText(time.Now())}}}
	f.addFields(h, w.Fields)
	return h, w.Body
}
