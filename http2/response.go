package http2

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// bodyBuffer is how many body bytes are collected before they are sent. A complete response within it gets a Content-Length.
const bodyBuffer = 4 << 10

// sniffLen is how many bytes of a body http.DetectContentType looks at.
const sniffLen = 512

// buffers is the memory of one response's body under construction.
type buffers struct{ body []byte }

func newBuffers() *buffers { return &buffers{body: make([]byte, 0, bodyBuffer)} }

// response implements http.ResponseWriter, http.Flusher, io.StringWriter and, for http.ResponseController, FlushError,
// EnableFullDuplex and the deadlines. The handler's goroutine owns it until the handler has returned.
type response struct {
	ex     *exchange
	header http.Header
	head   *fields  // from WriteHeader until it is committed
	bufs   *buffers // nil before WriteHeader and after the handler has returned

	status   int // 0 until WriteHeader
	isHead   bool
	tunnels  bool // the stream was given away
	headSent bool
	overflow bool  // HEAD: more was written than fits into the buffer
	length   int64 // declared Content-Length, -1 when there is none
	written  int64 // body bytes the handler wrote
	err      error // of the first failed send

	hasType, hasDate, hasCoding bool
	trailers                    []string // names that the Trailer field announces, in canonical form
}

func (w *response) init(ex *exchange) {
	w.ex = ex
	w.length = -1
	w.isHead = ex.req.Method == http.MethodHead
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// bodyAllowed reports whether responses with this status may have a body (RFC 9110 section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// WriteHeader implements http.ResponseWriter. An informational status is sent at once. The first other status is the status
// of the response. Status 101 does not exist in HTTP/2 (RFC 9113 section 8.6).
func (w *response) WriteHeader(status int) {
	switch {
	case w.status != 0:
		return
	case status < 100 || status > 999 || status == http.StatusSwitchingProtocols:
		panic(fmt.Sprintf("http2: invalid status %d in WriteHeader", status))
	case status == http.StatusContinue:
		w.ex.sendContinue()
		return
	case status < 200:
		head := new(fields)
		w.collect(head, status)
		w.ex.st.sc.f.countStatus(status)
		w.ex.st.out.inform(head)
		w.ex.st.sc.post(w.ex.st)
		return
	}
	w.status = status
	w.bufs = w.ex.st.sc.f.buffers.Get().(*buffers)
	w.bufs.body = w.bufs.body[:0]
	w.head = w.ex.st.sc.f.newFields()
	w.collect(w.head, status)
}

// Write implements io.Writer. Write returns after the bytes were taken, and blocks while the client's windows are full.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[S []byte | string](w *response, p S) (int, error) {
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
	if send(w, rest); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends everything written so far, for http.ResponseController. The response is a stream from then on, so the
// handler gives up its place in the pool.
func (w *response) FlushError() error {
	w.ex.place.Quit()
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

// EnableFullDuplex does nothing, for http.ResponseController. A handler can always read the body while it writes the response.
func (w *response) EnableFullDuplex() error { return nil }

// SetReadDeadline makes reads of the body fail with os.ErrDeadlineExceeded from t on, for http.ResponseController. The zero
// time means no deadline.
func (w *response) SetReadDeadline(t time.Time) error {
	if w.ex.body != nil {
		w.ex.body.SetDeadline(t)
	}
	return nil
}

// SetWriteDeadline makes writes of the response fail with os.ErrDeadlineExceeded from t on, for http.ResponseController. Such a
// failure ends the stream. The zero time means no deadline of the handler's own; Options.WriteTimeout holds in any case.
func (w *response) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		w.ex.writeBy.Store(nil)
	} else {
		w.ex.writeBy.Store(&t)
	}
	return nil
}

// send hands to the loop the head if it is due, the collected bytes and p.
func send[S []byte | string](w *response, p S) {
	b := w.bufs
	if !w.headSent && !w.commit(false) {
		return
	}
	by := w.ex.writeBy.Load()
	if by != nil && !time.Now().Before(*by) {
		w.fail(os.ErrDeadlineExceeded)
		return
	}
	if !w.isHead {
		queue(w, b.body, by)
		queue(w, p, by)
	}
	b.body = b.body[:0]
	w.ex.st.sc.post(w.ex.st)
}

// queue hands p to the loop, as fast as there is room.
func queue[S []byte | string](w *response, p S, by *time.Time) {
	for w.err == nil && len(p) > 0 {
		n, err := put(&w.ex.st.out, p)
		if p = p[n:]; err == nil && len(p) > 0 {
			w.ex.st.sc.post(w.ex.st)
			err = w.ex.st.out.await(by, &w.ex.place)
		}
		w.fail(err)
	}
}

// fail records the first error of a send.
func (w *response) fail(err error) {
	if err != nil && w.err == nil {
		w.err = err
	}
}

// commit makes the handler the owner of the answer and completes the head. The result is false when the loop has answered
// meanwhile, or the stream is over.
func (w *response) commit(complete bool) bool {
	out := &w.ex.st.out
	if !out.take(handler) {
		w.fail(out.failure())
		return false
	}
	w.headSent = true
	w.ex.st.sc.f.countStatus(w.status)
	w.finishHead(w.head, complete)
	out.head(w.head)
	w.head = nil
	return true
}

// end completes the response after the handler has returned.
func (w *response) end() {
	if w.tunnels {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	out, b := &w.ex.st.out, w.bufs
	if !w.headSent {
		w.commit(true)
	}
	w.bufs = nil
	if w.err != nil || w.length >= 0 && w.written != w.length && !w.isHead && bodyAllowed(w.status) {
		out.cut(b) // more bytes could make the response look complete
		return
	}
	rest := b.body
	if w.isHead {
		rest = nil
	}
	out.end(rest, b, w.trailer())
}

// abandon ends the response of a handler that did not return. quiet is for http.ErrAbortHandler.
func (w *response) abandon(quiet bool) {
	if w.tunnels {
		return
	}
	out, b := &w.ex.st.out, w.bufs
	w.bufs = nil
	if quiet || w.headSent || !out.take(handler) {
		out.cut(b)
		return
	}
	head, body := w.ex.st.sc.f.refusal(w.ex.st, http.StatusInternalServerError, "the handler failed")
	if out.head(head); w.isHead {
		body = nil
	}
	out.end(body, b, nil)
}

// plain makes the header section of an answer with a short text.
func plain(status, length int, date string) *fields {
	return &fields{list: []hpack.HeaderField{
		{Name: ":status", Value: strconv.Itoa(status)},
		{Name: "date", Value: date},
		{Name: "content-type", Value: "text/plain; charset=utf-8"},
		{Name: "x-content-type-options", Value: "nosniff"},
		{Name: "content-length", Value: strconv.Itoa(length)},
	}}
}

// collect puts the handler's header fields into h, sorted by name, as they are at WriteHeader. Fields that are about an
// HTTP/1.1 connection are left out; fields that cannot be sent are dropped and counted.
func (w *response) collect(h *fields, status int) {
	w.length, w.hasType, w.hasDate, w.hasCoding = -1, false, false, false
	w.trailers = w.trailers[:0]
	h.list = append(h.list[:0], hpack.HeaderField{Name: ":status", Value: statusText(status)})
	var space [24]string
	keys := space[:0]
	for k := range w.header {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		values := w.header[k]
		if w.special(k, values) {
			continue
		}
		for _, v := range values {
			w.field(h, k, v)
		}
	}
}

// field adds one field if it can be sent.
func (w *response) field(h *fields, k, v string) {
	v = strings.Trim(v, " \t")
	if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
		w.ex.st.sc.f.stats.invalidFields.Add(1)
		return
	}
	h.list = append(h.list, hpack.HeaderField{Name: lowerName(k), Value: v})
}

// special records the fields that finishHead decides about, and reports whether collect has to leave the field out.
func (w *response) special(key string, values []string) bool {
	switch key = http.CanonicalHeaderKey(key); key {
	case "Content-Length":
		if len(values) == 1 {
			if n, err := strconv.ParseUint(values[0], 10, 63); err == nil {
				w.length = int64(n)
			}
		}
		return true
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
		return true
	case "Trailer":
		for _, list := range values {
			for name := range strings.SplitSeq(list, ",") {
				if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" && httpguts.ValidTrailerHeader(name) {
					w.trailers = append(w.trailers, name)
				}
			}
		}
	case "Date":
		w.hasDate = true // a nil value suppresses the field, as in net/http
	case "Content-Type":
		w.hasType = true
	case "Content-Encoding":
		w.hasCoding = len(values) > 0 && values[0] != ""
	}
	return strings.HasPrefix(key, http.TrailerPrefix)
}

// finishHead completes the head. complete says that the buffer holds the whole body.
func (w *response) finishHead(h *fields, complete bool) {
	ex, body := w.ex, w.bufs.body
	if !w.hasDate {
		h.list = append(h.list, hpack.HeaderField{Name: "date", Value: ex.st.sc.dateText()})
	}
	allowed := bodyAllowed(w.status)
	if allowed && !w.hasType && !w.hasCoding && len(body) > 0 {
		h.list = append(h.list, hpack.HeaderField{Name: "content-type", Value: http.DetectContentType(body)})
	}
	tunnel := ex.req.Method == http.MethodConnect && w.status/100 == 2
	if allowed && w.length < 0 && complete && !w.overflow && !tunnel && (!w.isHead || w.written > 0) {
		w.length = w.written
	}
	if w.length >= 0 && !tunnel && (allowed || w.status == http.StatusNotModified) {
		h.list = append(h.list, hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(w.length, 10)})
	}
}

// trailer returns the fields that follow the body, sorted by name: the announced ones, and those whose key has
// http.TrailerPrefix. It returns nil if there are none.
func (w *response) trailer() *fields {
	var keys []string
	for _, name := range w.trailers {
		if len(w.header[name]) > 0 {
			keys = append(keys, name)
		}
	}
	for k := range w.header {
		if name, ok := strings.CutPrefix(k, http.TrailerPrefix); ok && httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(name)) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	h := new(fields)
	for _, k := range slices.Compact(keys) {
		for _, v := range w.header[k] {
			w.field(h, strings.TrimPrefix(k, http.TrailerPrefix), v)
		}
	}
	if len(h.list) == 0 {
		return nil
	}
	return h
}

func lateErr(err error, late bool) error {
	if err != nil && late {
		return context.DeadlineExceeded
	}
	return err
}
