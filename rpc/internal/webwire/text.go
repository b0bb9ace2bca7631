package webwire

import (
	"encoding/base64"
	"errors"
	"io"
)

var errText = errors.New("a body that is no base64")

// TextReader decodes base64 that may be padded in any place, since clients encode each message apart.
type TextReader struct {
	from io.Reader
	in   [4096]byte
	n    int    // bytes of in that are not decoded
	buf  []byte // decoded, not read
	mem  [3 * 4096 / 4]byte
	err  error
}

// NewTextReader returns a TextReader of r.
func NewTextReader(r io.Reader) *TextReader { return &TextReader{from: r} }

// Read implements io.Reader.
func (t *TextReader) Read(p []byte) (int, error) {
	for len(t.buf) == 0 {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.buf)
	t.buf = t.buf[n:]
	return n, nil
}

// fill decodes what comes next, in groups of four.
func (t *TextReader) fill() {
	k, err := t.from.Read(t.in[t.n:])
	t.n += k
	out := t.mem[:0]
	i := 0
	for ; i+4 <= t.n; i += 4 {
		m, bad := base64.StdEncoding.Decode(t.mem[len(out):len(out)+3], t.in[i:i+4])
		if bad != nil {
			t.err = errText
			break
		}
		out = t.mem[:len(out)+m]
	}
	t.n = copy(t.in[:], t.in[i:t.n])
	t.buf = out
	switch {
	case t.err != nil:
	case err == io.EOF && t.n > 0: //nolint:errorlint // what an io.Reader returns
		t.err = io.ErrUnexpectedEOF
	case err != nil:
		t.err = err
	}
}
