package http2

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// maxInformational bounds the 1xx responses before a final response.
const maxInformational = 8

// onHeaders begins a header section (RFC 9113 section 6.2).
func (cc *clientConn) onHeaders(f frame, p []byte) *ConnError {
	if f.stream%2 == 0 || f.stream >= cc.nextID {
		return connError(CodeProtocol, "HEADERS on the idle stream %d", f.stream)
	}
	block, self, err := f.unpad(p)
	if err != nil {
		return err
	}
	h := &cc.headers
	h.frame, h.self = f, self
	if f.has(flagEndHeaders) {
		return cc.section(block)
	}
	h.open = true
	h.block = append(h.block[:0], block...)
	return nil
}

// onContinuation goes on with a header section (RFC 9113 section 6.10).
func (cc *clientConn) onContinuation(f frame, p []byte) *ConnError {
	h := &cc.headers
	if !h.open {
		return connError(CodeProtocol, "CONTINUATION outside a header section")
	}
	if len(p) < tinyFragment && !f.has(flagEndHeaders) {
		if err := cc.charge("small CONTINUATION frames"); err != nil {
			return err
		}
	}
	if most := 2 * cc.t.MaxHeaderBytes; len(h.block)+len(p) > most {
		return connError(CodeEnhanceYourCalm, "a header section of more than %d bytes", most)
	}
	h.block = append(h.block, p...)
	if !f.has(flagEndHeaders) {
		return nil
	}
	h.open = false
	err := cc.section(h.block)
	if cap(h.block) > maxFrame {
		h.block = nil
	}
	return err
}

// section takes a whole header section: that of a response, or a trailer.
func (cc *clientConn) section(block []byte) *ConnError {
	h := &cc.headers
	if most := 2 * cc.t.MaxHeaderBytes; len(block) > most {
		return connError(CodeEnhanceYourCalm, "a header section of %d bytes, limit %d", len(block), most)
	}
	if err := h.decode(block); err != nil {
		return err
	}
	for i, f := range h.fields { // servers of gRPC send messages of a status as they are
		h.fields[i].Value = strings.Trim(f.Value, " \t")
	}
	st := cc.streams[h.stream]
	switch {
	case st == nil || !st.begun:
		if err := cc.onPast(h.frame); err != nil {
			return err
		}
		return cc.charge("HEADERS on closed streams")
	case st.recvEnd:
		return cc.malformed(st, CodeStreamClosed, "a header section behind the end of the response")
	case h.large:
		return cc.malformed(st, CodeCancel, "a header section over the limit of "+strconv.Itoa(cc.t.MaxHeaderBytes)+" bytes or "+strconv.Itoa(cc.t.MaxHeaderCount)+" fields")
	case st.answered:
		return cc.onTrailer(st)
	}
	return cc.onResponse(st)
}

// onTrailer ends the body of a response by its trailer section (RFC 9113 section 8.1).
func (cc *clientConn) onTrailer(st *clientStream) *ConnError {
	if !cc.headers.has(flagEndStream) {
		return cc.malformed(st, CodeProtocol, "a trailer section that does not end the response")
	}
	if bad := checkTrailer(cc.headers.fields); bad != "" {
		return cc.malformed(st, CodeProtocol, bad)
	}
	return cc.bodyEnd(st, cc.headers.fields)
}

// responseHead is a decoded header section of a response.
type responseHead struct {
	status  int
	fields  []hpack.HeaderField // behind :status; the decoder's memory
	trailer http.Header         // announced names
	length  int64               // Content-Length, -1 when there is none
}

// parse checks the fields of a section and fills h (RFC 9113 section 8.3.2). The result says what is malformed, "" for nothing.
func (h *responseHead) parse(fields []hpack.HeaderField) (bad string) {
	*h = responseHead{length: -1}
	if len(fields) == 0 || fields[0].Name != ":status" {
		return "a response without :status"
	}
	status := fields[0].Value
	n, err := strconv.ParseUint(status, 10, 16)
	if err != nil || len(status) != 3 || n < 100 || n == http.StatusSwitchingProtocols {
		return "a malformed :status"
	}
	h.status = int(n)
	h.fields = fields[1:]
	for _, f := range h.fields {
		if bad := checkField(f); bad != "" {
			return bad
		}
		if bad := h.special(f); bad != "" {
			return bad
		}
	}
	return ""
}

// header returns the header of an http.Response.
func (h *responseHead) header() http.Header {
	header := headerOf(h.fields)
	delete(header, "Trailer")
	if len(header["Content-Length"]) > 1 {
		header["Content-Length"] = header["Content-Length"][:1]
	}
	return header
}

// special notes the fields that the client itself acts on.
func (h *responseHead) special(f hpack.HeaderField) (bad string) {
	switch f.Name {
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return "a malformed Content-Length"
		}
		h.length = int64(n)
	case "trailer":
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" && httpguts.ValidTrailerHeader(name) {
				if h.trailer == nil {
					h.trailer = make(http.Header)
				}
				h.trailer[name] = nil
			}
		}
	}
	return ""
}

// onResponse takes the header section of a response, or an informational one.
func (cc *clientConn) onResponse(st *clientStream) *ConnError {
	head := &cc.head
	if bad := head.parse(cc.headers.fields); bad != "" {
		return cc.malformed(st, CodeProtocol, bad)
	}
	end := cc.headers.has(flagEndStream)
	if head.status < 200 {
		return cc.informed(st, head, end)
	}
	c := st.call
	tunnel := c.plan.connect && head.status < 300
	if tunnel && head.length >= 0 { // means nothing there (RFC 9110 section 9.3.6)
		head.length = -1
	}
	st.empty = c.plan.isHead || head.status == http.StatusNoContent || head.status == http.StatusNotModified
	if end && head.length > 0 && !st.empty {
		return cc.malformed(st, CodeProtocol, "a Content-Length without a body")
	}
	st.answered, st.length, st.tunnel = true, head.length, c.plan.connect && !end
	if err := c.of.answered(st, head, end); err != nil {
		cc.abort(st, CodeCancel, err)
		return nil
	}
	if end {
		return cc.bodyEnd(st, nil)
	}
	return nil
}

// informed handles a 1xx response (RFC 9110 section 15.2).
func (cc *clientConn) informed(st *clientStream, head *responseHead, end bool) *ConnError {
	st.informal++
	switch {
	case end:
		return cc.malformed(st, CodeProtocol, "an informational response that ends the stream")
	case st.informal > maxInformational:
		return cc.malformed(st, CodeEnhanceYourCalm, "more than "+strconv.Itoa(maxInformational)+" informational responses")
	}
	st.call.of.informed(st, head)
	return nil
}

// mergeTrailer adds the trailer fields to those that the response has announced.
func mergeTrailer(to *http.Header, trailer http.Header) {
	if *to == nil && len(trailer) > 0 {
		*to = trailer
		return
	}
	for k, v := range trailer {
		(*to)[k] = v
	}
}

// isEOF reports that everything has come.
func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // our own mark, never wrapped
