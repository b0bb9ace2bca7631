package http1

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"

	"github.com/go-eddy/eddy"
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
	h.header(&carrier, raw, nil)
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

func (cc *clientConn) decodeHead(view []byte) (int, error) {
	cc.received = true
	n, err := cc.head.feed(view)
	if err != nil {
		return 0, cc.garbage(err)
	}
	if n == 0 {
		return 0, nil
	}
	if s := cc.head.status; s < 200 && s != http.StatusSwitchingProtocols {
		return n, cc.informed(view, n)
	}
	return n, cc.final(view, n)
}

// garbage returns the error that closes the connection because of a malformed response.
func (cc *clientConn) garbage(err *requestError) error {
	cc.state = clientOver
	return eddy.WithReason(eddy.CloseProtocolError, fmt.Errorf("http1: malformed response: %s", err.msg))
}

// informed handles a 1xx response (RFC 9110 section 15.2).
func (cc *clientConn) informed(view []byte, n int) error {
	cc.informal++
	if cc.informal > maxInformational {
		return cc.garbage(badRequest(fmt.Sprintf("more than %d informational responses", maxInformational)))
	}
	if c := cc.call; !cc.tunnel && c != nil {
		status := cc.head.status
		trace := httptrace.ContextClientTrace(c.req.Context())
		if status == http.StatusContinue {
			c.body.allow(true)
			if trace != nil && trace.Got100Continue != nil {
				trace.Got100Continue()
			}
		}
		if trace != nil && trace.Got1xxResponse != nil {
			resp := cc.head.makeResponse(c.req, view, n, noBody)
			if err := trace.Got1xxResponse(status, textproto.MIMEHeader(resp.Header)); err != nil {
				cc.state = clientOver
				return eddy.WithReason(eddy.CloseNormal, err)
			}
		}
	}
	cc.resetHead()
	return nil
}

// final handles the head of the final response.
func (cc *clientConn) final(view []byte, n int) error {
	if cc.tunnel {
		return cc.tunnelAnswered()
	}
	c, h := cc.call, cc.head
	cc.framing = h.responseFraming(c.plan.isHead)
	if cc.framing == switching {
		return cc.garbage(badRequest("101 Switching Protocols, which nobody had asked for"))
	}
	cc.stopTimer()
	cc.keep = h.keepAlive() && cc.framing != untilEnd && !c.plan.close
	resp := h.makeResponse(c.req, view, n, cc.framing)
	cc.frame.init(h)
	cc.frame.opts = &cc.t.run.limits
	if cc.framing == noBody {
		cc.dropHead()
		cc.complete()
		c.finish(resp, nil)
		return nil
	}
	if cc.framing == untilEnd {
		cc.frame = bodyFrame{opts: &cc.t.run.limits, remain: cc.t.run.limits.MaxBody}
	}
	cc.dropHead()
	cc.body = newClientBody(cc, c, resp)
	resp.Body = cc.body
	cc.state = clientInBody
	c.finish(resp, nil)
	return nil
}

// tunnelAnswered handles a proxy's answer to CONNECT.
func (cc *clientConn) tunnelAnswered() error {
	status := cc.head.status
	cc.dropHead()
	cc.state = clientOver
	if status/100 != 2 {
		return eddy.WithReason(eddy.CloseHandshakeFailed, fmt.Errorf("http1: the proxy %s answered %s", cc.key.proxy, describe(status)))
	}
	cc.tunnel, cc.state, cc.received = false, clientIdle, false
	cc.secure()
	return nil
}

func (cc *clientConn) dropHead() {
	if cc.head != nil {
		cc.t.run.heads.Put(cc.head)
		cc.head = nil
	}
}

func (cc *clientConn) expectHead() {
	cc.state = clientHead
	cc.received, cc.keep, cc.informal = false, false, 0
	cc.head = cc.t.run.heads.Get().(*head)
	cc.resetHead()
}

func (cc *clientConn) resetHead() {
	cc.head.reset(&cc.t.run.limits)
	cc.head.response = true
}
