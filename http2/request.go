package http2

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// requestHead is a decoded header section of a request.
type requestHead struct {
	method, scheme, path, authority, protocol string

	header   http.Header
	trailer  http.Header
	fields   []hpack.HeaderField // behind the pseudo-header fields; the decoder's memory
	host     []string            // of Host fields
	length   int64               // Content-Length, -1 when there is none
	expect   bool                // the client waits for 100 Continue
	priority string
}

// parse checks the fields of a section and fills h (RFC 9113 section 8.3.1). The result says what is malformed, "" for
// nothing.
func (h *requestHead) parse(fields []hpack.HeaderField) (bad string) {
	*h = requestHead{length: -1}
	n := 0
	for ; n < len(fields) && strings.HasPrefix(fields[n].Name, ":"); n++ {
		if bad := h.pseudo(fields[n]); bad != "" {
			return bad
		}
	}
	h.fields = fields[n:]
	for _, f := range h.fields {
		if bad := checkField(f); bad != "" {
			return bad
		}
		if bad := h.special(f); bad != "" {
			return bad
		}
	}
	return h.complete()
}

// makeHeader makes the header of an http.Request.
func (h *requestHead) makeHeader() {
	h.header = make(http.Header, len(h.fields)+1)
	values := make([]string, len(h.fields))
	for i, f := range h.fields {
		key := http.CanonicalHeaderKey(f.Name)
		switch old := h.header[key]; {
		case key == "Host", key == "Trailer":
		case old == nil:
			values[i] = f.Value
			h.header[key] = values[i : i+1 : i+1]
		case key == "Content-Length": // the same again
		case key == "Cookie": // RFC 9113 section 8.2.3: crumbs of one field
			old[0] += "; " + f.Value
		default:
			h.header[key] = append(old, f.Value)
		}
	}
	if h.protocol != "" {
		h.header[":protocol"] = []string{h.protocol} // as net/http has it
	}
}

// pseudo takes a field whose name begins with a colon.
func (h *requestHead) pseudo(f hpack.HeaderField) (bad string) {
	var to *string
	switch f.Name {
	case ":method":
		to = &h.method
	case ":scheme":
		to = &h.scheme
	case ":path":
		to = &h.path
	case ":authority":
		to = &h.authority
	case ":protocol":
		to = &h.protocol
	default:
		return "an unknown pseudo-header field"
	}
	if *to != "" || f.Value == "" {
		return "a pseudo-header field that is empty or comes twice"
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		return "a malformed pseudo-header field"
	}
	*to = f.Value
	return ""
}

// checkField checks a field against RFC 9113 sections 8.2.1 and 8.2.2.
func checkField(f hpack.HeaderField) (bad string) {
	if !validName(f.Name) {
		return "a malformed field name, or a pseudo-header field behind others"
	}
	v := f.Value
	if !httpguts.ValidHeaderFieldValue(v) || v != "" && (isSpace(v[0]) || isSpace(v[len(v)-1])) {
		return "a malformed field value"
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return "a field about the connection"
	case "te":
		if v != "trailers" {
			return "a TE field other than trailers"
		}
	}
	return ""
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// validName reports whether name is a token in lower case.
func validName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' || c >= 0x80 || !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return true
}

// special notes the fields that the server itself acts on.
func (h *requestHead) special(f hpack.HeaderField) (bad string) {
	switch f.Name {
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return "a malformed Content-Length"
		}
		h.length = int64(n)
	case "host":
		h.host = append(h.host, f.Value)
	case "expect":
		h.expect = strings.EqualFold(f.Value, "100-continue")
	case "priority":
		h.priority = f.Value
	case "trailer":
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) && name != "" {
				if h.trailer == nil {
					h.trailer = make(http.Header)
				}
				h.trailer[name] = nil
			}
		}
	}
	return ""
}

// complete checks that the pseudo-header fields make a request (RFC 9113 sections 8.3.1 and 8.5, RFC 8441 section 4).
func (h *requestHead) complete() (bad string) {
	connect := h.method == http.MethodConnect
	switch {
	case !httpguts.ValidHeaderFieldName(h.method):
		return "a malformed or missing method"
	case h.protocol != "" && !connect:
		return "a :protocol field in a request other than CONNECT"
	case connect && h.protocol == "":
		if h.scheme != "" || h.path != "" || h.authority == "" {
			return "a CONNECT request needs :authority, and neither :scheme nor :path"
		}
	case h.scheme == "" || h.path == "":
		return "a request needs :scheme and :path"
	case h.path[0] != '/' && (h.path != "*" || h.method != http.MethodOptions):
		return "a malformed :path"
	}
	host := h.host
	switch {
	case len(host) > 1, len(host) == 1 && h.authority != "" && !strings.EqualFold(host[0], h.authority):
		return "a Host field that contradicts :authority"
	case h.authority == "" && len(host) == 1:
		h.authority = host[0]
	}
	if !httpguts.ValidHostHeader(h.authority) || strings.Contains(h.authority, "@") {
		return "a malformed :authority"
	}
	return ""
}

// request fills r, which keeps its context and its body. ok is false for a malformed target.
func (h *requestHead) request(r *http.Request) (ok bool) {
	h.makeHeader()
	r.Method, r.Host, r.Header, r.Trailer = h.method, h.authority, h.header, h.trailer
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.RequestURI = h.path
	if h.method == http.MethodConnect && h.protocol == "" {
		r.RequestURI, r.URL = h.authority, &url.URL{Host: h.authority}
		return true
	}
	u, err := url.ParseRequestURI(h.path)
	if err != nil {
		return false
	}
	r.URL = u
	return true
}

// checkTrailer checks the fields of a trailer section. The result says what is malformed, "" for nothing.
func checkTrailer(fields []hpack.HeaderField) (bad string) {
	for _, f := range fields {
		if bad := checkField(f); bad != "" {
			return bad
		}
		if !httpguts.ValidTrailerHeader(canonicalName(f.Name)) {
			return "a trailer field that frames or routes the message"
		}
	}
	return ""
}

// headerOf returns the header, or the trailer, of fields that were checked.
func headerOf(fields []hpack.HeaderField) http.Header {
	header := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		key := canonicalName(f.Name)
		if old := header[key]; old != nil {
			header[key] = append(old, f.Value)
			continue
		}
		values[i] = f.Value
		header[key] = values[i : i+1 : i+1]
	}
	return header
}
