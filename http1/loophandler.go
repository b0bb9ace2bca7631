package http1

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/internal/httpserve"
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
type LoopRequest httpserve.LoopRequest

// Method returns the method.
func (r *LoopRequest) Method() []byte { return r.MethodBytes }

// Target returns the request target as it was sent (RFC 9112 section 3.2), the value of :path in HTTP/2.
func (r *LoopRequest) Target() []byte { return r.TargetBytes }

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
func (r *LoopRequest) Header(name string) ([]byte, bool) { return r.Fields.Field(name) }

// Body returns the whole body.
func (r *LoopRequest) Body() []byte { return r.WholeBody }

// LoopResponse collects the response of a LoopHandler.
type LoopResponse httpserve.LoopResponse

// SetStatus sets the status, 200 to 999. The default is 200. Any other status panics, which ends the connection.
func (w *LoopResponse) SetStatus(status int) {
	if status < 200 || status > 999 {
		panic("http1: invalid status " + strconv.Itoa(status) + " in a LoopHandler")
	}
	w.Status = status
}

// AddHeader adds a header field. The server adds Date, Content-Length and Connection itself, but no Content-Type. A field of
// these three, a Transfer-Encoding or a field that cannot be sent is dropped and counted in Stats.InvalidFields.
func (w *LoopResponse) AddHeader(name, value string) {
	w.Fields = append(w.Fields, httpserve.Field{Name: name, Value: value})
}

// Write implements io.Writer. p is appended to the body; Write never fails.
func (w *LoopResponse) Write(p []byte) (int, error) {
	w.Body = append(w.Body, p...)
	return len(p), nil
}

// WriteString is Write for a string.
func (w *LoopResponse) WriteString(s string) (int, error) {
	w.Body = append(w.Body, s...)
	return len(s), nil
}

// Close ends the connection after the response. In HTTP/2 other requests of the connection are answered first.
func (w *LoopResponse) Close() { w.Closing = true }

// loopExchange is the memory of one request for a LoopHandler.
type loopExchange struct {
	w    httpserve.LoopResponse
	r    httpserve.LoopRequest
	from headFields
	out  []byte
}

// headFields finds the fields of a head.
type headFields struct {
	head *head
	view []byte
}

// Field implements httpserve.Fields.
func (h *headFields) Field(name string) ([]byte, bool) {
	for _, f := range h.head.fields {
		if bytes.EqualFold(h.view[f.name.from:f.name.to], []byte(name)) {
			return h.view[f.value.from:f.value.to], true
		}
	}
	return nil, false
}

// maxKeptOut is the capacity up to which the memory of an encoded response is reused.
const maxKeptOut = 64 << 10

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
	x := f.loops.Get().(*loopExchange)
	x.w.Reset()
	x.from = headFields{h, view}
	x.r = httpserve.LoopRequest{
		MethodBytes: view[h.method.from:h.method.to], TargetBytes: view[h.target.from:h.target.to], WholeBody: view[n:size], Fields: &x.from,
	}
	done = f.opts.OnLoop((*LoopResponse)(&x.w), (*LoopRequest)(&x.r))
	if done {
		sc.answerOnLoop(x)
	}
	x.r, x.from = httpserve.LoopRequest{}, headFields{}
	if x.w.Small() && cap(x.out) <= maxKeptOut {
		f.loops.Put(x)
	}
	if !done {
		return 0, false
	}
	return size, true
}

// answerOnLoop sends the LoopHandler's response.
func (sc *serverConn) answerOnLoop(x *loopExchange) {
	f, h, w := sc.f, sc.head, &x.w
	f.stats.requests.Add(1)
	f.countStatus(w.Status)
	sc.served++
	closing := w.Closing || !h.keepAlive() || sc.draining.Load() || f.opts.MaxRequests > 0 && sc.served >= f.opts.MaxRequests
	b := f.appendDate(appendStatus(x.out[:0], w.Status), time.Now())
	b, upgrade := f.appendFields(b, w.Fields)
	b = appendConnection(b, closing, h.minor > 0, upgrade)
	allowed := bodyAllowed(w.Status)
	if allowed {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.Body)), 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	if allowed && string(x.r.MethodBytes) != http.MethodHead {
		b = append(b, w.Body...)
	}
	sc.write(b)
	x.out = b
	sc.dropHead()
	sc.blank, sc.complete = false, 0
	if closing {
		sc.state = stateOver
		sc.ctx.CloseAfterFlush(sc.finalReason())
	}
}

// appendFields appends the fields of a LoopHandler that can be sent and that the server does not set itself. The others are
// counted. upgrade reports that an Upgrade field is among them.
func (f *Factory) appendFields(b []byte, fields []httpserve.Field) (_ []byte, upgrade bool) {
	for _, field := range fields {
		name, value := field.Name, field.Value
		framing := false
		switch len(name) {
		case len("date"), len("connection"), len("content-length"), len("transfer-encoding"):
			framing = equalFold(name, "date") || equalFold(name, "connection") || equalFold(name, "content-length") || equalFold(name, "transfer-encoding")
		}
		if framing || name == "" || !all(name, classToken) || !all(value, classValue) {
			f.stats.invalidFields.Add(1)
			continue
		}
		upgrade = upgrade || equalFold(name, "upgrade")
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
	}
	return b, upgrade
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
