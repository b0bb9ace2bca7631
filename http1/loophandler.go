package http1

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// LoopHandler answers a request on the loop of its connection, without a pool, and returns true. When it returns false, the
// request goes to the factory's http.Handler and whatever was written to w is dropped. Use it for small answers out of
// memory: it costs a plain function call and no allocation. A LoopHandler must not block, because everything that the loop
// serves waits for it.
//
// A LoopHandler is asked about requests without a body, and about those whose Content-Length fits into Options.BodyBuffer
// when the whole body has come (within HeaderTimeout). CONNECT goes to the http.Handler. w, r and the slices that r returns
// are valid during the call only.
type LoopHandler func(w *LoopResponse, r *LoopRequest) bool

// LoopRequest is a request as a LoopHandler sees it. Its slices are the loop's memory; do not change or keep them.
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

// Path returns the target up to its query, undecoded. Use it for targets in origin form, which begin with "/".
func (r *LoopRequest) Path() []byte {
	path, _, _ := bytes.Cut(r.Target(), []byte{'?'})
	return path
}

// Query returns the part of the target behind the question mark, undecoded.
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
	upgrade bool // an Upgrade field was added
	fields  []byte
	body    []byte
	out     []byte
	request LoopRequest // kept here so that request and response are pooled together
}

// SetStatus sets the status, 200 to 999. The default is 200. Any other status panics, which ends the connection.
func (w *LoopResponse) SetStatus(status int) {
	if status < 200 || status > 999 {
		panic("http1: invalid status " + strconv.Itoa(status) + " in a LoopHandler")
	}
	w.status = status
}

// AddHeader adds a header field. The server adds Date, Content-Length and Connection itself, but no Content-Type. A field of
// these three, a Transfer-Encoding or a field that cannot be sent is dropped and counted in Stats.InvalidFields.
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

// Write implements io.Writer. p is appended to the body; Write never fails.
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

// maxKeptBody is the capacity up to which the buffers of a LoopResponse are reused.
const maxKeptBody = 64 << 10

// wholeRequest returns the size of a request in bytes, head included, if the LoopHandler can be asked about the request,
// else 0. missing reports that not all of these bytes are in view.
func (sc *serverConn) wholeRequest(view []byte, n int) (size int, missing bool) {
	h := sc.head
	if h.chunked || h.length > int64(sc.f.opts.BodyBuffer) || h.authority {
		return 0, false
	}
	size = n + int(max(h.length, 0))
	return size, len(view) < size
}

// onLoop offers a request whose head has n bytes to the LoopHandler, and returns how many bytes were consumed. done reports
// that the request was answered, or that it waits for the rest of its body.
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

// answerOnLoop sends the LoopHandler's response.
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

// noHandler returns the refusal of a request that the LoopHandler has left, or was not asked about, on a factory without an
// http.Handler.
func (sc *serverConn) noHandler(h *head) *requestError {
	switch {
	case h.chunked:
		return &requestError{http.StatusLengthRequired, "a request needs a Content-Length here"}
	case h.length > int64(sc.f.opts.BodyBuffer):
		return tooLarge(http.StatusRequestEntityTooLarge, "body", int64(sc.f.opts.BodyBuffer))
	}
	return &requestError{http.StatusNotFound, "there is nothing here"}
}
