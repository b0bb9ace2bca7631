package http1

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// bodyBuffer is how many body bytes are collected before they are sent. A
// complete response within it gets a Content-Length and one write.
const bodyBuffer = 4 << 10

// maxPiece is the most body bytes of one queued message, so that a slow client
// is noticed in the middle of a large Write.
const maxPiece = 64 << 10

// sniffLen is how many bytes of a body http.DetectContentType looks at.
const sniffLen = 512

// maxKeptHead is the capacity up to which a head buffer goes back to the pool.
const maxKeptHead = 16 << 10

// buffers is the memory of one response under construction.
type buffers struct {
	head []byte
	body []byte
}

func newBuffers() *buffers {
	return &buffers{head: make([]byte, 0, 1<<10), body: make([]byte, 0, bodyBuffer)}
}

// response implements http.ResponseWriter, http.Flusher, http.Hijacker, io.StringWriter, io.ReaderFrom and, for
// http.ResponseController, FlushError, EnableFullDuplex and the deadlines. The handler's goroutine owns it until the handler
// has returned.
type response struct {
	ex     *exchange
	header http.Header
	bufs   *buffers // nil before WriteHeader and after the handler has returned

	status   int // 0 until WriteHeader
	hijacked bool
	isHead   bool
	headSent bool
	chunked  bool
	streams  bool  // Flush was called
	overflow bool  // HEAD: more was written than fits into the buffer
	length   int64 // declared Content-Length, -1 when there is none
	written  int64 // body bytes the handler wrote
	err      error // of the first failed send

	// Set by framing from the handler's header, for finishHead.
	hasType, hasDate, hasCoding, hasUpgrade, wantsClose bool

	trailers []string // names that the Trailer field announces, in canonical form
}

func (w *response) init(ex *exchange) {
	w.ex = ex
	w.length = -1
	w.isHead = ex.req.Method == http.MethodHead
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = w.ex.f.headers.Get().(http.Header)
	}
	return w.header
}

// maxKeptFields is the number of fields up to which a header is used for another response.
const maxKeptFields = 8

// dropHeader gives the header to other responses. A handler must not use it after it has returned, as net/http says.
func (w *response) dropHeader() {
	if h := w.header; h != nil && len(h) <= maxKeptFields {
		clear(h)
		w.ex.f.headers.Put(h)
	}
	w.header = nil
}

// bodyAllowed reports whether responses with this status may have a body (RFC
// 9110 section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// WriteHeader implements http.ResponseWriter. An informational status is sent at
// once. The first other status is the status of the response.
func (w *response) WriteHeader(status int) {
	switch {
	case w.hijacked || w.status != 0:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("http1: invalid status %d in WriteHeader", status))
	case status == http.StatusContinue:
		w.ex.sendContinue()
		return
	case status < 200 && status != http.StatusSwitchingProtocols: // 101 is a final status: Hijack follows
		w.inform(status)
		return
	}
	w.status = status
	w.bufs = w.ex.f.buffers.Get().(*buffers)
	w.bufs.body = w.bufs.body[:0]
	w.bufs.head = w.fields(appendStatus(w.bufs.head[:0], status))
}

// inform sends an informational response with the present header.
func (w *response) inform(status int) {
	if !w.ex.http11 {
		return // RFC 9110 section 15.2: never to a 1.0 client
	}
	head := w.fields(appendStatus(nil, status))
	head = appendConnection(head, false, true, w.hasUpgrade)
	w.ex.f.countStatus(status)
	w.fail(w.ex.write(append(head, "\r\n"...)))
}

// Write implements io.Writer. Write returns after the bytes were queued, and
// blocks while the client does not read.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[S []byte | string](w *response, p S) (int, error) {
	if w.hijacked {
		return 0, http.ErrHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.err != nil:
		return 0, w.err
	case w.bufs == nil:
		return 0, errReturned
	case w.length >= 0 && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	b := w.bufs
	if !w.overflow && len(b.body)+len(p) <= bodyBuffer {
		b.body = append(b.body, p...)
		return len(p), nil
	}
	rest := p
	if k := sniffLen - len(b.body); k > 0 && !w.headSent {
		b.body = append(b.body, p[:k]...) // enough to tell the content type
		rest = p[k:]
	}
	if w.isHead {
		w.overflow = true
		return len(p), nil
	}
	for len(rest) > 0 {
		n := min(len(rest), maxPiece)
		send(w, rest[:n])
		rest = rest[n:]
		if w.err != nil {
			return 0, w.err
		}
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends everything written so far, for http.ResponseController. The response is a stream from then on, so the
// handler gives up its place in the pool.
func (w *response) FlushError() error {
	w.streams = true
	w.ex.ctx.Place.Quit()
	return w.flush()
}

func (w *response) flush() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.bufs == nil {
		return errReturned
	}
	if !w.headSent || len(w.bufs.body) > 0 {
		send(w, "")
	}
	return w.err
}

// EnableFullDuplex does nothing, for http.ResponseController. A handler can
// always read the body while it writes the response.
func (w *response) EnableFullDuplex() error { return nil }

// SetReadDeadline makes reads of the body fail with os.ErrDeadlineExceeded from t on, for http.ResponseController. The zero
// time means no deadline.
func (w *response) SetReadDeadline(t time.Time) error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if w.ex.body != nil {
		w.ex.body.SetDeadline(t)
	}
	return nil
}

// SetWriteDeadline makes writes of the response fail with os.ErrDeadlineExceeded from t on, for http.ResponseController.
// Such a failure ends the connection with the response. The zero time means no deadline of the handler's own;
// Options.WriteTimeout holds in any case.
func (w *response) SetWriteDeadline(t time.Time) error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if t.IsZero() {
		w.ex.writeBy.Store(nil)
	} else {
		w.ex.writeBy.Store(&t)
	}
	return nil
}

// send queues one message: the head if it is due, the collected bytes and p.
func send[S []byte | string](w *response, p S) {
	b := w.bufs
	if !w.headSent {
		if !w.commit(false) {
			return
		}
	}
	if w.isHead {
		b.body = b.body[:0]
	}
	n := len(b.body) + len(p)
	msg := make([]byte, 0, len(b.head)+n+chunkOverhead)
	msg = append(msg, b.head...)
	b.head = b.head[:0]
	if n > 0 {
		if w.chunked {
			msg = append(strconv.AppendInt(msg, int64(n), 16), "\r\n"...)
		}
		msg = append(append(msg, b.body...), p...)
		if w.chunked {
			msg = append(msg, "\r\n"...)
		}
	}
	b.body = b.body[:0]
	if len(msg) > 0 {
		w.fail(w.ex.write(msg))
	}
}

// chunkOverhead is the room for a chunk's size line and the CRLF behind its data.
const chunkOverhead = 16 + 4

// fail records the first error of a send. The response is cut, so the connection
// cannot carry another one and closes.
func (w *response) fail(err error) {
	if err != nil && w.err == nil {
		w.err = err
		w.ex.rest.closing = true
	}
}

// commit makes the handler the owner of the answer and completes the head. The
// result is false when the loop has answered meanwhile.
func (w *response) commit(complete bool) bool {
	if !w.ex.take(handler) {
		w.fail(errAnswered)
		return false
	}
	w.headSent = true
	w.ex.f.countStatus(w.status)
	w.finishHead(complete)
	return true
}

var (
	errAnswered = errors.New("http1: the connection ended before the response began")
	errReturned = errors.New("http1: the response is complete: the handler has returned")
)

// end completes the response after the handler has returned. The bytes not yet
// queued go to ex.out, for the loop.
func (w *response) end() {
	if w.hijacked {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	defer w.dropHeader()
	ex, b := w.ex, w.bufs
	if !w.headSent {
		w.commit(true)
	}
	w.bufs = nil
	if w.err != nil { // the response is cut, and more bytes could make it look complete
		ex.f.buffers.Put(b)
		return
	}
	out := b.head
	if !w.isHead && len(b.body) > 0 {
		if w.chunked {
			out = append(strconv.AppendInt(out, int64(len(b.body)), 16), "\r\n"...)
		}
		out = append(out, b.body...)
		if w.chunked {
			out = append(out, "\r\n"...)
		}
	}
	if w.chunked {
		out = append(out, "0\r\n"...)
		out = append(w.appendTrailer(out), "\r\n"...)
	}
	if w.status == http.StatusSwitchingProtocols {
		ex.rest.closing = true // no Hijack has taken the connection over
	}
	if w.length >= 0 && w.written != w.length && !w.isHead && bodyAllowed(w.status) {
		ex.rest.closing = true // the client waits for bytes that will not come
	}
	ex.rest.out = out
	if cap(out) <= maxKeptHead {
		b.head = out
		ex.rest.bufs = b
	}
}
