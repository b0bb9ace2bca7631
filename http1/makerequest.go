package http1

import (
	"net/http"
	"net/url"
	"strings"
)

// request fills r and the URL it has from the complete head, whose text is raw. All strings of r are parts of raw. values is memory for the values of its fields. r keeps its context and its body.
func (h *head) request(r *http.Request, values []string, raw string) *requestError {
	r.Method = h.method.in(raw)
	r.RequestURI = h.target.in(raw)
	r.Proto = h.version.in(raw)
	r.ProtoMajor, r.ProtoMinor = 1, int(h.minor)
	u := r.URL
	if !plainTarget(u, r.RequestURI) {
		var err error
		if u, err = h.url(r.RequestURI); err != nil {
			return badRequest("malformed request target")
		}
		r.URL = u
	}
	h.header(r, raw, values)
	if h.authority {
		r.Host = u.Host
	} else if u.Host != "" {
		// RFC 9112 section 3.2.2: the target's authority wins over Host.
		if u.User != nil || !validHost([]byte(u.Host)) {
			return badRequest("malformed authority in the request target")
		}
		r.Host = u.Host
	} else if u.Scheme != "" {
		return badRequest("no authority in the request target")
	}
	r.Close = !h.keepAlive()
	r.ContentLength = max(h.length, 0)
	if h.chunked {
		r.ContentLength = -1
		r.TransferEncoding = []string{"chunked"}
	}
	if h.trailers > 0 && h.chunked {
		announceTrailer(r)
	}
	return nil
}

// plainTarget fills u from a target of a path and a query of which nothing has to be decoded, and reports whether target is
// one. The result is that of url.ParseRequestURI.
func plainTarget(u *url.URL, target string) bool {
	path, query, asks := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || !all(path, classPlainPath) || !all(query, classTarget) || asks && query == "" {
		return false
	}
	u.Path, u.RawQuery = path, query
	return true
}

// url parses the request target. An authority becomes a URL with only a Host.
func (h *head) url(target string) (*url.URL, error) {
	if !h.authority {
		return url.ParseRequestURI(target)
	}
	u, err := url.ParseRequestURI("http://" + target)
	if err == nil {
		u.Scheme = ""
	}
	return u, err
}

// announceTrailer moves the names in the Trailer field to r.Trailer, as net/http does. The values follow when the body was
// read to its end.
func announceTrailer(r *http.Request) {
	names := r.Header["Trailer"]
	delete(r.Header, "Trailer")
	for _, list := range names {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(trimSpace(name))
			if name == "" {
				continue
			}
			if r.Trailer == nil {
				r.Trailer = make(http.Header)
			}
			r.Trailer[name] = nil
		}
	}
}

// header fills r.Header and r.Host. The values of all fields share one array, which is values if there is room.
func (h *head) header(r *http.Request, raw string, values []string) {
	r.Header = make(http.Header, len(h.fields))
	if len(values) < len(h.fields) {
		values = make([]string, len(h.fields))
	}
	for i, f := range h.fields {
		v := f.value.in(raw)
		if i == h.host {
			r.Host = v
			continue
		}
		key := f.name.in(raw)
		if len(key) == len("transfer-encoding") && strings.EqualFold(key, "transfer-encoding") {
			continue // goes to r.TransferEncoding, as in net/http
		}
		key = http.CanonicalHeaderKey(key)
		if old := r.Header[key]; old != nil {
			r.Header[key] = append(old, v)
			continue
		}
		values[i] = v
		r.Header[key] = values[i : i+1 : i+1]
	}
}
