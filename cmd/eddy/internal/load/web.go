package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// web is an HTTP/1.1 client that sends the same request again and again: a GET without a body, or a POST of Size bytes.
// It checks the status of each answer. Bodies are read but not compared.
type web struct {
	all     []byte // one request, repeated as often as may be in flight
	request int
	reader  *bufio.Reader
	busy    []bool
}

// maxHeader bounds one line of an answer, and maxFields their number.
const (
	maxHeader = 16 << 10
	maxFields = 200
)

func newWeb(o Options) *web {
	path := o.Path
	if path == "" {
		path = "/"
	}
	var b bytes.Buffer
	if o.Size == 0 {
		fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, o.Addr)
	} else {
		fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", path, o.Addr, o.Size, payload(o.Size))
	}
	return &web{all: bytes.Repeat(b.Bytes(), max(o.InFlight, 1)), request: b.Len()}
}

func (w *web) handshake(c net.Conn) error {
	w.reader = bufio.NewReaderSize(c, maxHeader)
	return nil
}

func (w *web) requests(n int) []byte { return w.all[:n*w.request] }

// refused implements refuser.
func (w *web) refused() []bool { return w.busy }

// receive waits for one answer, and takes further ones whose head has arrived with it.
func (w *web) receive(io.ReadWriter) (answers int, err error) {
	w.busy = w.busy[:0]
	for len(w.busy) == 0 || w.headBuffered() {
		if err := w.answer(); err != nil {
			return len(w.busy), closedByServer(err)
		}
	}
	return len(w.busy), nil
}

func (w *web) headBuffered() bool {
	b, err := w.reader.Peek(w.reader.Buffered())
	return err == nil && bytes.Contains(b, []byte("\r\n\r\n"))
}

// head is what an answer's header says about its end.
type head struct {
	status  int
	length  int64 // -1: not given
	chunked bool
	closes  bool
}

// answer reads one answer (RFC 9112, sections 4 to 7). Answers of status 1xx are skipped.
func (w *web) answer() error {
	h := head{status: 100}
	for h.status >= 100 && h.status < 200 {
		var err error
		if h, err = w.head(); err != nil {
			return err
		}
	}
	if err := w.body(h); err != nil {
		return err
	}
	switch {
	case h.status == 503 || h.status == 429:
		w.busy = append(w.busy, true)
	case h.status >= 400:
		return &fault{KindStatus, fmt.Errorf("answer with status %d", h.status)}
	default:
		w.busy = append(w.busy, false)
	}
	if h.closes {
		return &fault{KindClosed, errors.New("the server closes after an answer: it does not keep connections, or not for so many requests; see \"eddy bench churn\"")}
	}
	return nil
}

func (w *web) head() (head, error) {
	h := head{length: -1}
	line, err := w.line()
	if err != nil {
		return h, err
	}
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if h.status, err = strconv.Atoi(string(code)); err != nil || !bytes.HasPrefix(version, []byte("HTTP/1.")) || len(code) != 3 {
		return h, wrong("%.40q is no HTTP/1 status line", line)
	}
	h.closes = bytes.HasSuffix(version, []byte(".0"))
	for range maxFields {
		if line, err = w.line(); err != nil || len(line) == 0 {
			return h, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if err := h.field(name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
	return h, wrong("more than %d header fields", maxFields)
}

func (h *head) field(name, value []byte) (err error) {
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		if h.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || h.length < 0 {
			return wrong("Content-Length %.40q", value)
		}
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = strings.EqualFold(string(value), "chunked")
		if !h.chunked {
			return wrong("Transfer-Encoding %.40q", value)
		}
	case bytes.EqualFold(name, []byte("Connection")):
		h.closes = h.closes || bytes.EqualFold(value, []byte("close"))
	}
	return nil
}

// line reads to the end of a line. The line is valid until the next read.
func (w *web) line() ([]byte, error) {
	b, err := w.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, wrong("a line of more than %d bytes", maxHeader)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b[:len(b)-1], []byte("\r")), nil
}

func (w *web) body(h head) error {
	switch {
	case h.status == 204 || h.status == 304:
		return nil
	case h.chunked:
		return w.chunks()
	case h.length >= 0:
		return w.skip(h.length)
	}
	return wrong("neither Content-Length nor chunked: its end cannot be told")
}

func (w *web) chunks() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		if err != nil || n < 0 {
			return wrong("chunk size %.40q", line)
		}
		if n == 0 {
			return w.trailer()
		}
		if err := w.skip(n); err != nil {
			return err
		}
		end, err := w.line()
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return wrong("a chunk longer than its size")
		}
	}
}

func (w *web) trailer() error {
	for range maxFields {
		if line, err := w.line(); err != nil || len(line) == 0 {
			return err
		}
	}
	return wrong("more than %d trailer fields", maxFields)
}

func (w *web) skip(n int64) error {
	for n > 0 {
		k, err := w.reader.Discard(int(min(n, 1<<30)))
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}
