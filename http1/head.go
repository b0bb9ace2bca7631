package http1

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"
)

// head parses one request line or status line and header section (RFC 9112
// sections 2 to 5). The view starts at the message's first byte and grows from
// call to call. feed consumes nothing before the empty line has arrived and
// looks at each byte once.
//
// The parser is strict where two readers of the same bytes could disagree.
// Lines end with CRLF only, and the request line has single spaces. Folding, a
// space before a colon, and a second way to state the length are refused.
type head struct {
	opts *Options

	pos     int // start of the unfinished line
	scan    int // the bytes before it were searched for the line's end
	started int // where the header section starts; 0 while in the request line

	method, target, version span

	fields     []field
	host       int // index of the Host field, -1 when there is none
	hosts      int
	length     int64 // value of Content-Length, -1 when there is none
	encodings  int
	chunked    bool // the last Transfer-Encoding was "chunked" alone
	strange    bool // the last Transfer-Encoding was a well-formed list that ends with "chunked"
	authority  bool // the target is host:port, for CONNECT
	minor      byte // HTTP/1.minor
	connClose  bool
	connKeep   bool
	expect     bool // Expect: 100-continue
	expectElse bool // any other expectation
	response   bool // a status line begins the head
	status     int
	trailers   int  // Trailer fields
	badTrailer bool // one of them announces framing fields
}

// span is a range of the view, as offsets, which stay valid when the view moves.
type span struct{ from, to int32 }

func (s span) in(raw string) string  { return raw[s.from:s.to] }
func spanOf(base, from, to int) span { return span{int32(base + from), int32(base + to)} }

type field struct{ name, value span }

// reset makes h ready for the next request and keeps its memory.
func (h *head) reset(o *Options) {
	*h = head{opts: o, fields: h.fields[:0], host: -1, length: -1}
}

// feed parses the new bytes of view. The result is the size of the complete
// head in bytes, 0 while the head is incomplete, or why the message is refused.
// After an error or a complete head h must be reset.
func (h *head) feed(view []byte) (int, *requestError) {
	for {
		if h.pos == 0 && len(view) > 0 && classes[view[0]]&classToken == 0 {
			return 0, badRequest("a message starts with a token")
		}
		i := bytes.IndexByte(view[h.scan:], '\n')
		if i < 0 {
			h.scan = len(view)
			return 0, h.checkOpenLine(view)
		}
		end := h.scan + i + 1
		if err := h.checkLine(view, end); err != nil {
			return 0, err
		}
		line := view[h.pos : end-2]
		switch {
		case h.started == 0:
			if err := h.startLine(line); err != nil {
				return 0, err
			}
			h.started = end
		case len(line) == 0:
			if h.response {
				return end, h.finishResponse()
			}
			return end, h.finish()
		default:
			if err := h.fieldLine(view, line); err != nil {
				return 0, err
			}
		}
		h.pos, h.scan = end, end
	}
}

// checkOpenLine refuses a line that has no end yet and is too long already. A
// request line may exceed the limit by one byte, the CR of its end.
func (h *head) checkOpenLine(view []byte) *requestError {
	size := len(view)
	if h.started == 0 {
		if size > h.opts.MaxRequestLine+1 {
			return h.longLine(view)
		}
		return nil
	}
	if size-h.started > h.opts.MaxHeaderBytes {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "header section", int64(h.opts.MaxHeaderBytes))
	}
	return nil
}

// longLine refuses a request line over the limit. When the limit holds nothing
// but a method, the method is refused as too long (RFC 9112 section 3).
func (h *head) longLine(view []byte) *requestError {
	limit := h.opts.MaxRequestLine
	if !h.response && all(view[:limit], classToken) {
		return tooLarge(http.StatusNotImplemented, "method", int64(limit))
	}
	return tooLarge(http.StatusRequestURITooLong, "request line", int64(limit))
}

// checkLine checks the size and the end of the line [h.pos, end).
func (h *head) checkLine(view []byte, end int) *requestError {
	content := end - 1
	crlf := content > h.pos && view[content-1] == '\r'
	if crlf {
		content--
	}
	if h.started == 0 && content > h.opts.MaxRequestLine {
		return h.longLine(view)
	}
	if h.started > 0 && end-h.started > h.opts.MaxHeaderBytes {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "header section", int64(h.opts.MaxHeaderBytes))
	}
	if !crlf {
		return badRequest("a line ends with LF without CR")
	}
	return nil
}

func (h *head) startLine(line []byte) *requestError {
	if h.response {
		return h.statusLine(line)
	}
	return h.requestLine(line)
}

// requestLine parses method SP request-target SP HTTP-version (RFC 9112
// section 3).
func (h *head) requestLine(line []byte) *requestError {
	m := bytes.IndexByte(line, ' ')
	if m <= 0 || !all(line[:m], classToken) {
		return badRequest("malformed method")
	}
	rest := line[m+1:]
	t := bytes.IndexByte(rest, ' ')
	if t <= 0 || !all(rest[:t], classTarget) {
		return badRequest("malformed request target")
	}
	v := rest[t+1:]
	if len(v) != 8 || string(v[:5]) != "HTTP/" || v[6] != '.' || !isDigit(v[5]) || !isDigit(v[7]) {
		return badRequest("malformed protocol version")
	}
	if v[5] != '1' {
		return &requestError{http.StatusHTTPVersionNotSupported, "only HTTP/1 is served"}
	}
	h.minor = v[7] - '0'
	h.method = spanOf(0, 0, m)
	h.target = spanOf(0, m+1, m+1+t)
	h.version = spanOf(0, m+t+2, len(line))
	return h.checkTarget(line[:m], rest[:t])
}

// checkTarget allows each form of the request target (RFC 9112 section 3.2) only
// with the methods that use the form.
func (h *head) checkTarget(method, target []byte) *requestError {
	switch {
	case string(method) == http.MethodConnect:
		h.authority = true
		if validAuthority(target) {
			return nil
		}
	case target[0] == '/':
		return nil
	case len(target) == 1 && target[0] == '*':
		if string(method) == http.MethodOptions {
			return nil
		}
	case absolute(target):
		return nil
	}
	return badRequest("this form of request target is not for this method")
}

// validAuthority checks the authority form (RFC 9112 section 3.2.3): a host and a port, neither empty.
func validAuthority(target []byte) bool {
	colon := bytes.LastIndexByte(target, ':')
	return colon > 0 && colon < len(target)-1 && validHost(target) && target[len(target)-1] != ']'
}

// absolute reports whether the target is an absolute http or https URI.
func absolute(target []byte) bool {
	return len(target) > 7 && equalFold(target[:7], "http://") ||
		len(target) > 8 && equalFold(target[:8], "https://")
}

// fieldLine parses one field line (RFC 9112 section 5); line is at h.pos.
func (h *head) fieldLine(view, line []byte) *requestError {
	if len(h.fields) >= h.opts.MaxHeaderCount {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "number of header fields", int64(h.opts.MaxHeaderCount))
	}
	colon, value, err := splitField(line)
	if err != nil {
		return err
	}
	from := colon + 1
	for from < len(line) && (line[from] == ' ' || line[from] == '\t') {
		from++
	}
	f := field{name: spanOf(h.pos, 0, colon), value: spanOf(h.pos, from, from+len(value))}
	h.fields = append(h.fields, f)
	return h.known(line[:colon], value)
}

// splitField finds the colon and the trimmed value of a field line and checks
// every byte of both.
func splitField(line []byte) (colon int, value []byte, err *requestError) {
	if line[0] == ' ' || line[0] == '\t' {
		return 0, nil, badRequest("folded header line")
	}
	colon = bytes.IndexByte(line, ':')
	if colon <= 0 || !all(line[:colon], classToken) {
		return 0, nil, badRequest("malformed header field name")
	}
	value = trimSpace(line[colon+1:])
	if !all(value, classValue) {
		return 0, nil, badRequest("control character in a header field")
	}
	return colon, value, nil
}

// known records the fields that decide how the message is framed and how the
// connection goes on. The switch on the length rules out most other fields
// cheaply.
func (h *head) known(name, value []byte) *requestError {
	switch len(name) {
	case 4:
		if !h.response && equalFold(name, "host") {
			return h.hostField(value)
		}
	case 6:
		if equalFold(name, "expect") {
			if equalFold(value, "100-continue") {
				h.expect = true
			} else {
				h.expectElse = true
			}
		}
	case 7:
		if equalFold(name, "trailer") {
			list := string(value)
			h.trailers++
			h.badTrailer = h.badTrailer || hasToken(list, "transfer-encoding") ||
				hasToken(list, "content-length") || hasToken(list, "trailer")
		}
	case 10:
		if equalFold(name, "connection") {
			list := string(value)
			h.connClose = h.connClose || hasToken(list, "close")
			h.connKeep = h.connKeep || hasToken(list, "keep-alive")
		}
	case 14:
		if equalFold(name, "content-length") {
			return h.lengthField(value)
		}
	case 17:
		if equalFold(name, "transfer-encoding") {
			h.encodings++
			h.chunked = equalFold(value, "chunked")
			h.strange = !h.chunked && endsChunked(string(value))
		}
	}
	return nil
}

// endsChunked reports whether a list of transfer codings ends with "chunked" and names it once. The end of such a body can
// be found, but its other codings are not known here.
func endsChunked(list string) bool {
	for i, last := 0, false; ; i++ {
		item, rest, more := strings.Cut(list, ",")
		item = trimSpace(item)
		name, _, _ := strings.Cut(item, ";")
		if name = trimSpace(name); name == "" || !all(name, classToken) || last {
			return false
		}
		last = equalFold(item, "chunked")
		if !more {
			return last && i > 0
		}
		list = rest
	}
}

func (h *head) hostField(value []byte) *requestError {
	h.hosts++
	if h.hosts > 1 {
		return badRequest("more than one Host field")
	}
	if !validHost(value) {
		return badRequest("malformed Host field")
	}
	h.host = len(h.fields) - 1
	return nil
}

// validHost checks uri-host [ ":" port ] (RFC 9110 section 7.2): a name or an
// IPv4 address without colons, or an IPv6 address in brackets. An empty v is
// valid.
func validHost(v []byte) bool {
	if !all(v, classHost) {
		return false
	}
	if len(v) > 0 && v[0] == '[' {
		end := bytes.IndexByte(v, ']')
		if end < 0 || !validIPv6(v[1:end]) {
			return false
		}
		rest := v[end+1:]
		return len(rest) == 0 || rest[0] == ':' && validPort(rest[1:])
	}
	if bytes.ContainsAny(v, "[]") {
		return false
	}
	colon := bytes.IndexByte(v, ':')
	if colon == 0 {
		return false // a port without a host
	}
	return colon < 0 || validPort(v[colon+1:])
}

func validIPv6(v []byte) bool {
	a, err := netip.ParseAddr(string(v))
	return err == nil && a.Is6() && a.Zone() == ""
}

func validPort(v []byte) bool {
	for _, c := range v {
		if !isDigit(c) {
			return false
		}
	}
	return len(v) <= 5
}

// lengthField accepts one Content-Length of digits only. RFC 9112 section 6.3
// allows repeated fields with the same value. A request with them is refused; a
// response keeps the first, because real servers send them.
func (h *head) lengthField(value []byte) *requestError {
	if h.length >= 0 && !h.response {
		return badRequest("more than one Content-Length")
	}
	if len(value) == 0 {
		return badRequest("malformed Content-Length")
	}
	var n int64
	over := false
	for _, c := range value {
		if !isDigit(c) {
			return badRequest("malformed Content-Length")
		}
		n = n*10 + int64(c-'0')
		if n > 1<<55 {
			n, over = 1<<55, true
		}
	}
	if h.length >= 0 {
		if over || n != h.length {
			return badRequest("Content-Length fields that differ")
		}
		h.fields = h.fields[:len(h.fields)-1]
		return nil
	}
	if over {
		n = 1<<63 - 1
	}
	h.length = n
	return nil
}

// finish makes the decisions that need all fields (RFC 9112 sections 3.2 and
// 6.3).
func (h *head) finish() *requestError {
	switch {
	case h.minor > 0 && h.hosts == 0:
		return badRequest("no Host field")
	case h.encodings > 0 && h.length >= 0:
		return badRequest("Content-Length together with Transfer-Encoding")
	case h.encodings > 1:
		return badRequest("more than one Transfer-Encoding field")
	case h.encodings > 0 && h.minor == 0:
		return badRequest("Transfer-Encoding in HTTP/1.0")
	case h.strange:
		return &requestError{http.StatusNotImplemented, "the only transfer coding known is chunked"}
	case h.encodings > 0 && !h.chunked: // RFC 9112 section 6.3: the end of the body cannot be found
		return badRequest("malformed Transfer-Encoding, or chunked is not its last coding")
	case h.chunked && h.badTrailer:
		return badRequest("the Trailer field announces framing fields")
	case h.length > h.opts.MaxBody:
		return tooLarge(http.StatusRequestEntityTooLarge, "body", h.opts.MaxBody)
	case h.expectElse && h.minor > 0:
		return &requestError{http.StatusExpectationFailed, "the only expectation known is 100-continue"}
	}
	return nil
}

// hasBody reports whether a body follows the head.
func (h *head) hasBody() bool { return h.chunked || h.length > 0 }

// keepAlive reports whether the client wants the connection to persist (RFC
// 9112 section 9.3).
func (h *head) keepAlive() bool {
	if h.minor == 0 {
		return h.connKeep && !h.connClose
	}
	return !h.connClose
}
