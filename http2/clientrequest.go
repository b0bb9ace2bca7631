package http2

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// requestPlan says how a request is put on the wire.
type requestPlan struct {
	list     []hpack.HeaderField
	size     int // of list, as SETTINGS_MAX_HEADER_LIST_SIZE counts
	length   int64
	hasBody  bool
	expect   bool // the body waits for 100 Continue
	close    bool // the connection takes no further request
	isHead   bool
	connect  bool
	extended bool // needs SETTINGS_ENABLE_CONNECT_PROTOCOL
	gzip     bool // asks for gzip by itself
}

// withPort returns host:port of an http or https URL.
func withPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// init checks r and builds its header section (RFC 9113 section 8.3.1).
func (p *requestPlan) init(r *http.Request) error {
	method, host := r.Method, r.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = r.URL.Host
	}
	p.isHead, p.connect = method == http.MethodHead, method == http.MethodConnect
	p.hasBody = r.Body != nil && r.Body != http.NoBody
	p.length = r.ContentLength
	if p.hasBody && p.length <= 0 {
		p.length = -1
	} else if !p.hasBody {
		p.length = 0
	}
	protocol := r.Header[":protocol"]
	p.extended = len(protocol) > 0
	target := r.URL.RequestURI()
	switch {
	case !httpguts.ValidHeaderFieldName(method):
		return fmt.Errorf("http2: method %q cannot be sent", method)
	case !httpguts.ValidHostHeader(host) || host == "" || strings.Contains(host, "@"):
		return fmt.Errorf("http2: malformed host %q", host)
	case p.extended && (!p.connect || len(protocol) != 1 || !httpguts.ValidHeaderFieldName(protocol[0])):
		return errors.New("http2: a :protocol needs the method CONNECT and one token")
	case !p.plain() && (!httpguts.ValidHeaderFieldValue(target) || target[0] != '/' && target != "*"):
		return errors.New("http2: the request target has characters that cannot be sent")
	}
	p.list = make([]hpack.HeaderField, 0, 8+len(r.Header))
	p.add(":method", method)
	if !p.plain() {
		p.add(":scheme", r.URL.Scheme)
		p.add(":path", target)
	}
	p.add(":authority", host)
	if p.extended {
		p.add(":protocol", protocol[0])
	}
	return p.fields(r)
}

// plain reports whether the request is a CONNECT of the usual kind (RFC 9113 section 8.5).
func (p *requestPlan) plain() bool { return p.connect && !p.extended }

func (p *requestPlan) add(name, value string) {
	f := hpack.HeaderField{Name: name, Value: value}
	f.Sensitive = name == "authorization" || name == "proxy-authorization"
	p.list = append(p.list, f)
	p.size += int(f.Size())
}

// fields adds the header fields, sorted by name. Those about an HTTP/1.1 connection are left out.
func (p *requestPlan) fields(r *http.Request) error {
	keys := make([]string, 0, len(r.Header))
	for k := range r.Header {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	p.close = r.Close
	if _, ok := r.Header["User-Agent"]; !ok {
		p.add("user-agent", "eddy-http2")
	}
	for _, k := range keys {
		skip, err := p.special(k, r.Header[k])
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		for _, v := range r.Header[k] {
			v = strings.Trim(v, " \t")
			if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("http2: header field %q cannot be sent", k)
			}
			p.add(lowerName(k), v)
		}
	}
	if p.gzip {
		p.add("accept-encoding", "gzip")
	}
	return p.framing(r)
}

// special notes the fields that the client itself acts on, and reports whether to leave one out.
func (p *requestPlan) special(k string, values []string) (skip bool, err error) {
	has := func(token string) bool { return httpguts.HeaderValuesContainsToken(values, token) }
	switch http.CanonicalHeaderKey(k) {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Keep-Alive", "Proxy-Connection", ":protocol":
		return true, nil
	case "Connection":
		p.close = p.close || has("close")
		return true, nil
	case "Upgrade":
		if len(values) > 0 {
			return true, errors.New("http2: a request with an Upgrade field needs HTTP/1.1")
		}
	case "Te":
		if has("trailers") {
			p.add("te", "trailers")
		}
		return true, nil
	case "Expect":
		p.expect = p.hasBody && has("100-continue")
	case "User-Agent":
		return len(values) == 0 || values[0] == "", nil // as in net/http, an empty value leaves the field out
	}
	return false, nil
}

// framing adds the length of the body and the names of the trailer.
func (p *requestPlan) framing(r *http.Request) error {
	switch {
	case p.connect:
		p.length = -1
	case p.hasBody && p.length >= 0, !p.hasBody && (r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH"):
		p.add("content-length", strconv.FormatInt(p.length, 10))
	}
	if !p.hasBody {
		return nil
	}
	names := make([]string, 0, len(r.Trailer))
	for k := range r.Trailer {
		if !httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(k)) || !httpguts.ValidHeaderFieldName(k) {
			return fmt.Errorf("http2: trailer field %q cannot be sent", k)
		}
		names = append(names, lowerName(http.CanonicalHeaderKey(k)))
	}
	slices.Sort(names)
	if len(names) > 0 {
		p.add("trailer", strings.Join(names, ","))
	}
	return nil
}

// trailerFields returns the section that follows the body, nil for none.
func (p *requestPlan) trailerFields(trailer http.Header) (*fields, error) {
	h := new(fields)
	keys := make([]string, 0, len(trailer))
	for k := range trailer {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		for _, v := range trailer[k] {
			v = strings.Trim(v, " \t")
			if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(k)) || !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("http2: trailer field %q cannot be sent", k)
			}
			h.list = append(h.list, hpack.HeaderField{Name: lowerName(k), Value: v})
		}
	}
	if len(h.list) == 0 {
		return nil, nil
	}
	return h, nil
}
