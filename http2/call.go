package http2

import (
	"context"
	"iter"
	"net/http"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// Head is the header section of a request, as Options.Calls sees it. It is valid during that call only.
type Head struct {
	head *requestHead
	conn *eddy.Conn
}

// Conn returns the connection of the request.
func (h Head) Conn() *eddy.Conn { return h.conn }

// Method returns the value of :method.
func (h Head) Method() string { return h.head.method }

// Path returns the value of :path, as the client has written it.
func (h Head) Path() string { return h.head.path }

// Get returns the value of the first field of this name, which is in lower case, "" if there is none.
func (h Head) Get(name string) string {
	for _, f := range h.head.fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// All yields the fields in their order, names in lower case, without the pseudo-header fields.
func (h Head) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range h.head.fields {
			if !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// Followed is the answer of Options.Calls for one request.
type Followed struct {
	// Call serves the request; nil = the http.Handler does, and the other fields are not looked at.
	Call Call

	http1.Route

	// Timeout is the time from the request's header section to its answer. The request's context has it as its deadline.
	// Afterwards the context ends, and the server answers 504. If the call has begun to answer, its reads and writes fail
	// instead, so that it can end what it has begun. 0 = none but Server.HandlerTimeout.
	Timeout time.Duration

	// OnLoop runs the call on the connection's loop. It must not block, so set Await for a request that may have a body.
	// A panic ends the connection.
	OnLoop bool
}

// Call is a request of a server that works below net/http, such as one of remote calls; see Options.Calls.
type Call interface {
	// Serve answers the request, on the pool that Followed names.
	Serve(x *Exchange)
	// Refused is asked for an answer in place of Serve's: 503 when the pool takes no more or after the server's
	// HandlerTimeout, 504 after Followed.Timeout, 408 and 413 for a body that stalls or is too long, 500 after a panic. w has
	// the status and the text that go out if Refused changes nothing. On the loop, but after a panic where Serve ran. It must
	// not block.
	Refused(w *http1.LoopResponse, status int, why string)
	// Over is called once: the request was answered or has failed, and Serve has returned or was never called. On the loop,
	// or where Serve ran if it returns after the loop has ended. It must not block.
	Over()
}

// follow asks Options.Calls about a new request. ok is false if the request is none of a Call.
func (sc *serverConn) follow(st *stream, head *requestHead) (route http1.Route, ok bool) {
	if sc.f.opts.Calls == nil {
		return route, false
	}
	to := sc.f.opts.Calls(Head{head, sc.conn})
	if to.Call == nil {
		return route, false
	}
	st.call, st.inline = to.Call, to.OnLoop
	if timeout := to.Timeout; timeout > 0 {
		if by := time.Now().Add(timeout); st.ctx.by.IsZero() || by.Before(st.ctx.by) {
			st.ctx.by = by
		}
		st.limit, _ = sc.ctx.After(timeout, func() { sc.expire(st, timeout) }) // an error means that the connection is ending
	}
	if to.Pool == nil {
		to.Pool = sc.f.pool
	}
	return to.Route, true
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
		return plain(w.Status, len(w.Body), st.sc.dateText()), w.Body
	}
	h := &fields{list: []hpack.HeaderField{{Name: ":status", Value: statusText(w.Status)}, {Name: "date", Value: st.sc.dateText()}}}
	f.addFields(h, w.Fields)
	return h, w.Body
}

// busy is the refusal of a request that its pool does not run.
func (f *Factory) busy(st *stream) (*fields, []byte) {
	head, body := f.refusal(st, http.StatusServiceUnavailable, busyText)
	head.comeBack(st)
	return head, body
}

// comeBack says when the pool of a request may have room.
func (h *fields) comeBack(st *stream) {
	h.list = append(h.list, hpack.HeaderField{Name: "retry-after", Value: httpserve.RetryAfter(st.to.Pool)})
}
