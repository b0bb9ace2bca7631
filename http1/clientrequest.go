package http1

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-eddy/eddy"
)

// requestPlan says how a request is put on the wire.
type requestPlan struct {
	head    []byte
	hasBody bool
	chunked bool
	length  int64
	expect  bool // the body waits for 100 Continue
	close   bool // the connection is for this request alone
	isHead  bool
}

// init checks r and builds its head (RFC 9112 section 3). absolute asks for the absolute form, which proxies need.
func (p *requestPlan) init(r *http.Request, absolute bool, auth string) error {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	target := r.URL.RequestURI()
	if absolute {
		u := *r.URL
		u.User, u.Fragment, u.RawFragment = nil, "", ""
		target = u.String()
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	switch {
	case !all(method, classToken) || method == http.MethodConnect:
		return fmt.Errorf("http1: method %q cannot be sent", method)
	case !all(target, classTarget) || target == "":
		return errors.New("http1: the request target has characters that cannot be sent")
	case !validHost([]byte(host)) || host == "":
		return fmt.Errorf("http1: malformed host %q", host)
	}
	p.isHead = method == http.MethodHead
	p.hasBody = r.Body != nil && r.Body != http.NoBody
	p.length = max(r.ContentLength, 0)
	p.chunked = p.hasBody && r.ContentLength <= 0
	b := make([]byte, 0, 512)
	b = append(append(append(append(b, method...), ' '), target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	b, err := p.fields(b, r)
	if err != nil {
		return err
	}
	if auth != "" && absolute {
		b = append(append(append(b, "Proxy-Authorization: "...), auth...), "\r\n"...)
	}
	p.head = append(b, "\r\n"...)
	return nil
}

// fields appends the header section without Host.
func (p *requestPlan) fields(b []byte, r *http.Request) ([]byte, error) {
	keys := make([]string, 0, len(r.Header))
	for k := range r.Header {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	p.close = r.Close
	if _, ok := r.Header["User-Agent"]; !ok {
		b = append(b, "User-Agent: eddy-http1\r\n"...)
	}
	for _, k := range keys {
		switch http.CanonicalHeaderKey(k) {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // set by init and framing
		case "Expect":
			p.expect = p.hasBody && equalFold(r.Header.Get("Expect"), "100-continue")
		case "Connection":
			p.close = p.close || hasToken(r.Header.Get("Connection"), "close")
			if p.close {
				continue
			}
		}
		for _, v := range r.Header[k] {
			if k == "User-Agent" && v == "" {
				continue // as in net/http, an empty value leaves the field out
			}
			if k == "" || !all(k, classToken) || !all(v, classValue) {
				return nil, fmt.Errorf("http1: header field %q cannot be sent", k)
			}
			b = append(append(append(append(b, k...), ": "...), trimSpace(v)...), "\r\n"...)
		}
	}
	if p.close {
		b = append(b, "Connection: close\r\n"...)
	}
	return p.framing(b, r)
}

func (p *requestPlan) framing(b []byte, r *http.Request) ([]byte, error) {
	switch {
	case p.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		names := make([]string, 0, len(r.Trailer))
		for k := range r.Trailer {
			if k = http.CanonicalHeaderKey(k); k == "" || !all(k, classToken) || neverTrailer(k) {
				return nil, fmt.Errorf("http1: trailer field %q cannot be sent", k)
			}
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			b = append(append(append(b, "Trailer: "...), k...), "\r\n"...)
		}
	case p.hasBody || r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH":
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), p.length, 10), "\r\n"...)
	}
	return b, nil
}

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// onlyReader hides every method of a body but Read, so that io.Copy reads pieces for outgoing.Write.
type onlyReader struct{ io.Reader }

// outgoing frames a request body and writes it to the connection. Its writes block while the server does not read.
type outgoing struct {
	conn    *eddy.Conn
	ctx     context.Context
	chunked bool
	left    int64 // bytes still to come, of a body of known length
}

// Write implements io.Writer.
func (o *outgoing) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	msg := make([]byte, 0, len(p)+chunkOverhead)
	if o.chunked {
		msg = append(strconv.AppendInt(msg, int64(len(p)), 16), "\r\n"...)
		msg = append(append(msg, p...), "\r\n"...)
	} else {
		if int64(len(p)) > o.left {
			return 0, errors.New("http1: the request body is longer than its ContentLength")
		}
		o.left -= int64(len(p))
		msg = append(msg, p...)
	}
	if err := o.conn.WriteContext(o.ctx, msg); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end completes the body: it writes the last chunk with the trailer, or checks that no byte is missing.
func (o *outgoing) end(trailer http.Header) error {
	if !o.chunked {
		if o.left > 0 {
			return fmt.Errorf("http1: the request body is %d bytes shorter than its ContentLength", o.left)
		}
		return nil
	}
	b := []byte("0\r\n")
	for k, values := range trailer {
		for _, v := range values {
			if !all(v, classValue) {
				return fmt.Errorf("http1: trailer field %q cannot be sent", k)
			}
			b = append(append(append(append(b, k...), ": "...), trimSpace(v)...), "\r\n"...)
		}
	}
	return o.conn.WriteContext(o.ctx, append(b, "\r\n"...))
}
