package http1

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// LoopHandler answers a request on the loop of its connection, without a pool, and reports true; false leaves the request
// to the factory's http.Handler, and what was written is forgotten. It must not block: everything that the loop serves waits
// for it. It is for small answers out of memory, which it gives at the price of a plain function, without an allocation.
//
// It is asked about requests whose body fits into Options.BodyBuffer and has a Content-Length, when all of it has come
// (within HeaderTimeout). w and r, and what r returns, are valid during the call only.
type LoopHandler func(w *LoopResponse, r *LoopRequest) bool

// LoopRequest is a request as a LoopHandler sees it. The slices are the loop's memory: not to be changed or kept.
type LoopRequest struct {
	head *head
	view []byte
	body []byte
}

func (r *LoopRequest) at(s span) []byte { return r.view[s.from:s.to] }

// Method returns the method.
func (r *LoopRequest) Method() []byte { return r.at(r.head.method) }

// Target returns the request target as it was sent (RFC 9112 section 3.2).
func (r *LoopRequest) Target() []byte { return r.at(r.head.target) }

// Path returns the target up to its query, undecoded. It is for targets in origin form, which begin with "/".
func (r *LoopRequest) Path() []byte {
	path, _, _ := bytes.Cut(r.Target(), []byte{'?'})
	return path
}

// Query returns what follows the target's question mark, undecoded.
func (r *LoopRequest) Query() []byte {
	_, query, _ := bytes.Cut(r.Target(), []byte{'?'})
	return query
}

// Header returns the value of the first field of this name, without regard to case, and whether there is one.
func (r *LoopRequest) Header(name string) ([]byte, bool) {
	for _, f := range r.head.fields {
		if bytes.EqualFold(r.at(f.name), []byte(name)) {
			return r.at(f.value), true
		}
	}
	return nil, false
}

// Body returns the whole body.
func (r *LoopRequest) Body() []byte { return r.body }

// LoopResponse collects the response of a LoopHandler.
type LoopResponse struct {
	f       *Factory
	status  int
	closing bool
	upgrade bool // a field of this name was added
	fields  []byte
	body    []byte
	out     []byte
	request LoopRequest // here, so that both come from one pool
}

// SetStatus sets the status, 200 to 999; without it it is 200. Another one panics, which ends the connection.
func (w *LoopResponse) SetStatus(status int) {
	if status < 200 || status > 999 {
		panic("http1: invalid status " + strconv.Itoa(status) + " in a LoopHandler")
	}
	w.status = status
}

// AddHeader adds a field. One that cannot be sent, or that frames the message, is dropped and counted in
// Stats.InvalidFields. Date, Content-Length and Connection are added by the server, a Content-Type is not.
func (w *LoopResponse) AddHeader(name, value string) {
	framing := false
	switch len(name) {
	case len("date"), len("connection"), len("content-length"), len("transfer-encoding"):
		framing = equalFold(name, "date") || equalFold(name, "connection") || equalFold(name, "content-length") || equalFold(name, "transfer-encoding")
	}
	if framing || name == "" || !all(name, classToken) || !all(value, classValue) {
		w.f.stats.invalidFields.Add(1)
		return
	}
	w.upgrade = w.upgrade || equalFold(name, "upgrade")
	w.fields = append(append(append(append(w.fields, name...), ": "...), value...), "\r\n"...)
}

// Write appends to the body; it implements io.Writer and never fails.
func (w *LoopResponse) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}

// WriteString is Write for a string.
func (w *LoopResponse) WriteString(s string) (int, error) {
	w.body = append(w.body, s...)
	return len(s), nil
}

// Close ends the connection after the response.
func (w *LoopResponse) Close() { w.closing = true }

// maxKeptBody is the capacity up to which the memory of a LoopResponse is used again.
const maxKeptBody = 64 << 10

// wholeRequest reports how many bytes a request has that the LoopHandler can be asked about, head included; 0 when it
// cannot, and missing when they are not all there.
func (sc *serverConn) wholeRequest(view []byte, n int) (size int, missing bool) {
	h := sc.head
	if h.chunked || h.length > int64(sc.f.opts.BodyBuffer) || h.authority {
		return 0, false
	}
	size = n + int(max(h.length, 0))
	return size, len(view) < size
}

// onLoop offers a request whose head has n bytes to the LoopHandler. It returns how many bytes were consumed and whether
// the request is done with, or waits for the rest of its body.
func (sc *serverConn) onLoop(view []byte, n int) (consumed int, done bool) {
	f, h := sc.f, sc.head
	size, missing := sc.wholeRequest(view, n)
	switch {
	case size == 0:
		return 0, false
	case missing:
		if h.expect && h.minor > 0 && sc.complete == 0 {
			f.countStatus(http.StatusContinue)
			sc.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		}
		sc.complete = n
		return 0, true
	}
	w := f.loops.Get().(*LoopResponse)
	w.status, w.closing, w.upgrade, w.fields, w.body = http.StatusOK, false, false, w.fields[:0], w.body[:0]
	w.request = LoopRequest{head: h, view: view[:n], body: view[n:size]}
	if !f.opts.OnLoop(w, &w.request) {
		f.loops.Put(w)
		return 0, false
	}
	sc.answerOnLoop(w)
	return size, true
}

// answerOnLoop sends the response.
func (sc *serverConn) answerOnLoop(w *LoopResponse) {
	f, h := sc.f, sc.head
	f.stats.requests.Add(1)
	f.countStatus(w.status)
	sc.served++
	closing := w.closing || !h.keepAlive() || sc.draining.Load() || f.opts.MaxRequests > 0 && sc.served >= f.opts.MaxRequests
	b := f.appendDate(appendStatus(w.out[:0], w.status), time.Now())
	b = append(b, w.fields...)
	b = appendConnection(b, closing, h.minor > 0, w.upgrade)
	allowed := bodyAllowed(w.status)
	if allowed {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.body)), 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	if allowed && string(w.request.Method()) != http.MethodHead {
		b = append(b, w.body...)
	}
	sc.write(b)
	w.out = b
	w.request = LoopRequest{}
	if cap(w.out) <= maxKeptBody && cap(w.body) <= maxKeptBody && cap(w.fields) <= maxKeptBody {
		f.loops.Put(w)
	}
	sc.dropHead()
	sc.blank, sc.complete = false, 0
	if closing {
		sc.state = stateOver
		sc.ctx.CloseAfterFlush(sc.finalReason())
	}
}

// noHandler answers a request that the LoopHandler has left, or was not asked about, when there is nobody else.
func (sc *serverConn) noHandler(h *head) *requestError {
	switch {
	case h.chunked:
		return &requestError{http.StatusLengthRequired, "a request needs a Content-Length here"}
	case h.length > int64(sc.f.opts.BodyBuffer):
		return tooLarge(http.StatusRequestEntityTooLarge, "body", int64(sc.f.opts.BodyBuffer))
	}
	return &requestError{http.StatusNotFound, "there is nothing here"}
}
