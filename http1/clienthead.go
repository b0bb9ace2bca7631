package http1

import (
	"net/http"
	"strconv"
)

// statusLine parses HTTP-version SP status-code [ SP [ reason ] ] (RFC 9112 section 4). The space before an empty reason
// may be missing, since many servers leave that out.
func (h *head) statusLine(line []byte) *requestError {
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || !isDigit(line[7]) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return badRequest("malformed status line")
	}
	for _, c := range line[9:12] {
		if !isDigit(c) {
			return badRequest("malformed status line")
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 100 || !all(line[12:], classValue) {
		return badRequest("malformed status line")
	}
	h.minor = line[7] - '0'
	h.version = spanOf(0, 0, 8)
	h.target = spanOf(0, 9, len(line)) // the status with its reason
	return nil
}

// finishResponse makes the decisions that need all fields (RFC 9112 section 6.3). A response that states its length in two
// ways is refused, since an intermediary may have read it differently.
func (h *head) finishResponse() *requestError {
	switch {
	case h.encodings > 0 && h.length >= 0:
		return badRequest("Content-Length together with Transfer-Encoding")
	case h.encodings > 1:
		return badRequest("more than one Transfer-Encoding field")
	case h.encodings > 0 && (!h.chunked || h.minor == 0):
		return badRequest("the only transfer coding known is chunked")
	}
	return nil
}

// responseFraming says what follows a response's head.
type responseFraming uint8

const (
	noBody    responseFraming = iota
	framed                    // Content-Length or chunks
	untilEnd                  // everything to the end of the connection
	switching                 // another protocol (101)
)

func (h *head) responseFraming(isHead bool) responseFraming {
	switch {
	case h.status == http.StatusSwitchingProtocols:
		return switching
	case isHead, h.status < 200, h.status == http.StatusNoContent, h.status == http.StatusNotModified:
		return noBody
	case h.chunked, h.length > 0:
		return framed
	case h.length == 0:
		return noBody
	}
	return untilEnd
}

// makeResponse builds the response from the n bytes of the complete head, which are copied once.
func (h *head) makeResponse(r *http.Request, view []byte, n int, framing responseFraming) *http.Response {
	raw := string(view[:n])
	resp := &http.Response{
		Status: h.target.in(raw), StatusCode: h.status, Proto: h.version.in(raw), ProtoMajor: 1, ProtoMinor: int(h.minor),
		Request: r, ContentLength: h.length, Close: !h.keepAlive() || framing == untilEnd, Body: http.NoBody,
	}
	if len(resp.Status) == 3 {
		resp.Status += " " + http.StatusText(h.status)
	}
	carrier := http.Request{}
	h.host = -1
	h.header(&carrier, raw)
	if h.chunked {
		carrier.TransferEncoding, resp.TransferEncoding = []string{"chunked"}, []string{"chunked"}
		if h.trailers > 0 {
			announceTrailer(&carrier)
		}
	}
	resp.Header, resp.Trailer = carrier.Header, carrier.Trailer
	if framing == noBody && h.length < 0 && r.Method != http.MethodHead {
		resp.ContentLength = 0
	}
	return resp
}

// describe returns the code and the text of a status, for errors.
func describe(status int) string { return strconv.Itoa(status) + " " + http.StatusText(status) }
