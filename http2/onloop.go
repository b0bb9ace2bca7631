package http2

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// loopExchange is the memory of one request for Options.OnLoop.
type loopExchange struct {
	w      httpserve.LoopResponse
	r      httpserve.LoopRequest
	fields loopFields
	text   []byte // that the slices of r are in
}

// loopFields finds the fields of a decoded header section.
type loopFields struct {
	header http.Header
	value  []byte
}

// Field implements httpserve.Fields.
func (l *loopFields) Field(name string) ([]byte, bool) {
	v := l.header[http.CanonicalHeaderKey(name)]
	if len(v) == 0 {
		return nil, false
	}
	l.value = append([]byte(nil), v[0]...)
	return l.value, true
}

// wholeFor reports whether OnLoop can be asked about a request with such a body.
func (f *Factory) wholeFor(head *requestHead, end bool) bool {
	return f.opts.OnLoop != nil && head.method != http.MethodConnect && (end || head.length >= 0 && head.length <= int64(f.opts.BodyBuffer))
}

// onLoop offers a whole request to Options.OnLoop and reports whether it was answered.
func (sc *serverConn) onLoop(st *stream, head *requestHead, body []byte) bool {
	x := sc.f.loops.Get().(*loopExchange)
	x.w.Reset()
	x.text = append(append(x.text[:0], head.method...), head.path...)
	n := len(head.method)
	x.fields = loopFields{header: head.header}
	x.r = httpserve.LoopRequest{MethodBytes: x.text[:n:n], TargetBytes: x.text[n:], WholeBody: body, Fields: &x.fields}
	answered := sc.f.opts.OnLoop((*http1.LoopResponse)(&x.w), (*http1.LoopRequest)(&x.r))
	if answered {
		sc.answerOnLoop(st, &x.w)
	}
	x.r, x.fields = httpserve.LoopRequest{}, loopFields{}
	if x.w.Small() {
		sc.f.loops.Put(x)
	}
	return answered
}

// wholeOnLoop offers a request whose awaited body has come to Options.OnLoop, and reports whether it was answered.
func (sc *serverConn) wholeOnLoop(st *stream) bool {
	if st.forLoop == nil {
		return false
	}
	body := make([]byte, st.received)
	_, _ = io.ReadFull(&st.body.Pipe, body) // everything is there, so nothing waits
	if sc.onLoop(st, st.forLoop, body) {
		return true
	}
	st.req.Body = io.NopCloser(bytes.NewReader(body))
	return false
}

// answerOnLoop sends the response of OnLoop. It waits in the stream for what the client's windows do not take.
func (sc *serverConn) answerOnLoop(st *stream, w *httpserve.LoopResponse) {
	f := sc.f
	st.answered = true
	st.out.take(loop)
	f.countStatus(w.Status)
	h := f.newFields()
	h.list = append(h.list[:0], hpack.HeaderField{Name: ":status", Value: statusText(w.Status)}, hpack.HeaderField{Name: "date", Value: sc.dateText()})
	f.addFields(h, w.Fields)
	body := w.Body
	if !bodyAllowed(w.Status) {
		body = nil
	} else {
		h.list = append(h.list, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(body))})
	}
	if st.w.isHead {
		body = nil
	}
	st.out.head(h)
	if len(body) > 0 {
		_ = st.out.add(append([]byte(nil), body...)) // an error means that nobody waits for it
	}
	st.out.end(nil, nil, nil)
	sc.offer(st)
	sc.pump()
	if w.Closing {
		sc.lastResponse()
	}
}

// addFields adds the fields that a function on the loop has named, as far as they can be sent.
func (f *Factory) addFields(h *fields, list []httpserve.Field) {
	for _, field := range list {
		name := lowerName(field.Name)
		switch name {
		case "date", "connection", "content-length", "transfer-encoding", "keep-alive", "proxy-connection", "upgrade":
			f.stats.invalidFields.Add(1)
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(field.Value) {
			f.stats.invalidFields.Add(1)
			continue
		}
		h.list = append(h.list, hpack.HeaderField{Name: name, Value: strings.Trim(field.Value, " \t")})
	}
}

// lastResponse lets the client send no more requests, and ends the connection when those that are open are answered.
func (sc *serverConn) lastResponse() {
	sc.takeNoMore()
	sc.leaving = true
	sc.leave()
}

// leave ends a connection that has nothing left to answer, if it is to end.
func (sc *serverConn) leave() {
	if sc.leaving && len(sc.streams) == 0 && sc.state != stateOver {
		sc.state = stateOver
		sc.ctx.CloseAfterFlush(eddy.CloseNormal)
	}
}
