package http1

import (
	"bytes"
	"net/http"
)

// bodyFrame finds the bytes of one request body in the stream, by length or by
// chunks (RFC 9112 sections 6 and 7).
type bodyFrame struct {
	opts    *Options
	chunked bool
	state   bodyState
	scan    int   // bytes of the current line already searched for its end
	remain  int64 // bytes left of the body, or of the current chunk
	most    int64 // limit of a chunked body in bytes
	total   int64 // chunked: sum of the chunk sizes so far
	extra   int   // chunked: bytes of extensions and trailers so far
	fields  int   // trailer fields so far
	trailer http.Header
}

type bodyState uint8

const (
	bodyData bodyState = iota
	bodySizeLine
	bodyDataEnd
	bodyTrailer
	bodyDone
)

// maxSizeLine bounds one chunk size line with its extensions.
const maxSizeLine = 1 << 10

// init prepares f for a body as h announces it.
func (f *bodyFrame) init(h *head) {
	*f = bodyFrame{opts: h.opts, chunked: h.chunked, remain: max(h.length, 0), most: h.opts.MaxBody}
	if h.chunked {
		f.state = bodySizeLine
	} else if f.remain == 0 {
		f.state = bodyDone
	}
}

// done reports whether the whole body and its framing have passed.
func (f *bodyFrame) done() bool { return f.state == bodyDone }

// next takes the next step in view. The results are how many bytes to consume
// and which of them are body data, at most room. When next consumes nothing and
// returns no error, it needs more bytes or more room.
func (f *bodyFrame) next(view []byte, room int) (data []byte, consumed int, err *requestError) {
	switch f.state {
	case bodyData:
		n := int(min(int64(len(view)), int64(room), f.remain))
		f.remain -= int64(n)
		if f.remain == 0 {
			f.state = bodyDone
			if f.chunked {
				f.state = bodyDataEnd
			}
		}
		return view[:n], n, nil
	case bodyDataEnd:
		return f.dataEnd(view)
	case bodySizeLine:
		line, n, err := f.line(view, maxSizeLine)
		if n == 0 {
			return nil, 0, err
		}
		return nil, n, f.sizeLine(line)
	case bodyTrailer:
		line, n, err := f.line(view, f.opts.MaxHeaderBytes)
		if n == 0 {
			return nil, 0, err
		}
		return nil, n, f.trailerLine(line)
	}
	return nil, 0, nil
}

// dataEnd requires exactly CRLF behind the data of a chunk.
func (f *bodyFrame) dataEnd(view []byte) ([]byte, int, *requestError) {
	if len(view) > 0 && view[0] != '\r' || len(view) > 1 && view[1] != '\n' {
		return nil, 0, badRequest("chunk data is not followed by CRLF")
	}
	if len(view) < 2 {
		return nil, 0, nil
	}
	f.state = bodySizeLine
	return nil, 2, nil
}

// line returns the line at the start of view without its CRLF, and its size
// with the CRLF. The size is 0 while the line is incomplete.
func (f *bodyFrame) line(view []byte, limit int) ([]byte, int, *requestError) {
	i := bytes.IndexByte(view[f.scan:], '\n')
	if i < 0 {
		f.scan = len(view)
		if len(view) > limit {
			return nil, 0, tooLarge(http.StatusRequestHeaderFieldsTooLarge, "line in a chunked body", int64(limit))
		}
		return nil, 0, nil
	}
	end := f.scan + i + 1
	f.scan = 0
	if end > limit {
		return nil, 0, tooLarge(http.StatusRequestHeaderFieldsTooLarge, "line in a chunked body", int64(limit))
	}
	if end < 2 || view[end-2] != '\r' {
		return nil, 0, badRequest("a line ends with LF without CR")
	}
	return view[:end-2], end, nil
}

// sizeLine parses chunk-size [ chunk-ext ] (RFC 9112 section 7.1). Extensions
// are checked against their grammar, counted and ignored.
func (f *bodyFrame) sizeLine(line []byte) *requestError {
	digits := 0
	var size int64
	for digits < len(line) && classes[line[digits]]&classHex != 0 {
		size = size<<4 | int64(hexValue(line[digits]))
		digits++
	}
	if digits == 0 || digits > 15 {
		return badRequest("malformed chunk size")
	}
	if ext := line[digits:]; len(ext) > 0 {
		if !validExtensions(ext) {
			return badRequest("malformed chunk extension")
		}
		if err := f.spend(len(ext)); err != nil {
			return err
		}
	}
	if size > f.most-f.total {
		return tooLarge(http.StatusRequestEntityTooLarge, "body", f.most)
	}
	f.total += size
	f.remain = size
	f.state = bodyData
	if size == 0 {
		f.state = bodyTrailer
	}
	return nil
}

func (f *bodyFrame) trailerLine(line []byte) *requestError {
	if len(line) == 0 {
		f.state = bodyDone
		return nil
	}
	f.fields++
	if f.fields > f.opts.MaxHeaderCount {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "number of trailer fields", int64(f.opts.MaxHeaderCount))
	}
	colon, value, err := splitField(line)
	if err != nil {
		return err
	}
	if err := f.spend(len(line) + 2); err != nil {
		return err
	}
	name := http.CanonicalHeaderKey(string(line[:colon]))
	if neverTrailer(name) {
		return badRequest("a trailer field that frames or routes the message")
	}
	if f.trailer == nil {
		f.trailer = make(http.Header)
	}
	f.trailer[name] = append(f.trailer[name], string(value))
	return nil
}

// neverTrailer reports whether the field, in canonical form, decides about the message or the connection. Such a field must
// not come behind the body (RFC 9110 section 6.5.1).
func neverTrailer(name string) bool {
	switch name {
	case "Transfer-Encoding", "Content-Length", "Trailer", "Host", "Connection", "Expect", "Te", "Upgrade":
		return true
	}
	return false
}

// spend counts the bytes of chunk extensions and trailers, and refuses too many.
func (f *bodyFrame) spend(n int) *requestError {
	f.extra += n
	if f.extra > f.opts.MaxHeaderBytes {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "chunk extensions and trailers", int64(f.opts.MaxHeaderBytes))
	}
	return nil
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
