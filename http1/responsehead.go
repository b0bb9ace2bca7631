package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fields appends the handler's header fields, sorted by name, as they are at
// WriteHeader. Fields that decide the framing are left to finishHead. Fields
// that cannot be sent are dropped and counted, so that no value can smuggle in
// another field or response.
func (w *response) fields(b []byte) []byte {
	w.length, w.hasType, w.hasDate, w.hasCoding, w.hasUpgrade, w.wantsClose = -1, false, false, false, false, false
	w.trailers = w.trailers[:0]
	var space [24]string
	keys := space[:0]
	for k := range w.header {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		values := w.header[k]
		if w.framing(k, values) {
			continue
		}
		for _, v := range values {
			b = w.field(b, k, v)
		}
	}
	return b
}

// field appends one field line if it can be sent.
func (w *response) field(b []byte, k, v string) []byte {
	if len(k) == 0 || !all(k, classToken) || !all(v, classValue) {
		w.ex.f.stats.invalidFields.Add(1)
		return b
	}
	b = append(append(append(b, k...), ": "...), trimSpace(v)...)
	return append(b, "\r\n"...)
}

// framing records the fields that finishHead decides about, and reports whether
// fields has to leave the field out.
func (w *response) framing(key string, values []string) bool {
	switch key = http.CanonicalHeaderKey(key); key {
	case "Content-Length":
		w.length = -1
		if len(values) == 1 {
			if n, err := strconv.ParseUint(values[0], 10, 63); err == nil {
				w.length = int64(n)
			}
		}
		return true
	case "Transfer-Encoding":
		return true
	case "Connection":
		for _, v := range values {
			w.wantsClose = w.wantsClose || hasToken(v, "close")
		}
		return w.status != http.StatusSwitchingProtocols
	case "Upgrade":
		w.hasUpgrade = len(values) > 0
	case "Trailer":
		for _, v := range values {
			w.announce(v)
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

// announce records the names in a Trailer field.
func (w *response) announce(list string) {
	for name := range strings.SplitSeq(list, ",") {
		name = http.CanonicalHeaderKey(trimSpace(name))
		if name != "" && !neverTrailer(name) {
			w.trailers = append(w.trailers, name)
		}
	}
}

// hasTrailer reports whether fields may follow the body.
func (w *response) hasTrailer() bool {
	if len(w.trailers) > 0 {
		return true
	}
	for k := range w.header {
		if strings.HasPrefix(k, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// appendTrailer appends the fields that follow the last chunk, sorted by name: the announced ones, and those whose key has
// http.TrailerPrefix.
func (w *response) appendTrailer(b []byte) []byte {
	var keys []string
	for _, name := range w.trailers {
		if len(w.header[name]) > 0 {
			keys = append(keys, name)
		}
	}
	for k := range w.header {
		name, ok := strings.CutPrefix(k, http.TrailerPrefix)
		if ok && !neverTrailer(http.CanonicalHeaderKey(name)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		for _, v := range w.header[k] {
			b = w.field(b, strings.TrimPrefix(k, http.TrailerPrefix), v)
		}
	}
	return b
}

// finishHead decides the framing (RFC 9112 section 6) and the persistence
// (section 9) of the response, and completes its head. complete says that the
// buffer holds the whole body.
func (w *response) finishHead(complete bool) {
	ex := w.ex
	b := w.bufs.head
	if !w.hasDate {
		b = ex.f.appendDate(b, time.Now())
	}
	if ex.req.Method == http.MethodConnect && w.status/100 == 2 {
		// RFC 9110 section 9.3.6: after the head the connection is a tunnel, up to its end.
		ex.rest.closing, w.length = true, -1
		w.bufs.head = append(b, "\r\n"...)
		return
	}
	if bodyAllowed(w.status) {
		b = w.contentType(b)
		b = w.contentLength(b, complete)
	} else {
		b = w.noContent(b)
	}
	b = w.persistence(b)
	w.bufs.head = append(b, "\r\n"...)
}

// contentType appends a Content-Type sniffed from the body, if the handler set none.
func (w *response) contentType(b []byte) []byte {
	body := w.bufs.body
	if w.hasType || w.hasCoding || len(body) == 0 {
		return b
	}
	b = append(append(b, "Content-Type: "...), http.DetectContentType(body)...)
	return append(b, "\r\n"...)
}

func (w *response) contentLength(b []byte, complete bool) []byte {
	if w.length < 0 && complete && !w.overflow && (!w.isHead || w.written > 0) && (!w.ex.http11 || !w.hasTrailer()) {
		w.length = w.written
	}
	switch {
	case w.length >= 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, w.length, 10)
		b = append(b, "\r\n"...)
	case w.isHead:
	case w.ex.http11:
		w.chunked = true
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	default:
		w.ex.rest.closing = true // a 1.0 client knows the end by the end of the connection
	}
	return b
}

// noContent handles the statuses without a body. Only a 304 may say how long the
// body would have been.
func (w *response) noContent(b []byte) []byte {
	if w.status == http.StatusNotModified && w.length >= 0 {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, w.length, 10)
		b = append(b, "\r\n"...)
	}
	return b
}

func (w *response) persistence(b []byte) []byte {
	ex := w.ex
	if w.status == http.StatusSwitchingProtocols {
		return b
	}
	if !ex.keepAlive || w.wantsClose || ex.sc.draining.Load() || ex.waitsContinue() || ex.tooMuchLeft() {
		ex.rest.closing = true
	}
	return appendConnection(b, ex.rest.closing, ex.http11, w.hasUpgrade)
}

// appendConnection appends the Connection field if one is needed. The field says whether the connection goes on, and names
// the Upgrade field if there is one (RFC 9110 section 7.8).
func appendConnection(b []byte, closing, http11, upgrade bool) []byte {
	switch {
	case closing:
		b = append(b, "Connection: close"...)
	case !http11:
		b = append(b, "Connection: keep-alive"...)
	case upgrade:
		return append(b, "Connection: Upgrade\r\n"...)
	default:
		return b
	}
	if upgrade {
		b = append(b, ", Upgrade"...)
	}
	return append(b, "\r\n"...)
}
