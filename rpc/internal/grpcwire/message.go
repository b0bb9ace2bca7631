package grpcwire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// PrefixLen is the length of what precedes a message: a flag that says whether it is compressed, and its length.
const PrefixLen = 5

// AppendPrefix appends room for a prefix, which Finish fills in.
func AppendPrefix(dst []byte) []byte { return append(dst, 0, 0, 0, 0, 0) }

// Finish fills in the prefix at from, for a message that goes to the end of b.
func Finish(b []byte, from int, compressed bool) {
	if compressed {
		b[from] = 1
	}
	binary.BigEndian.PutUint32(b[from+1:], uint32(len(b)-from-PrefixLen))
}

// TooLargeError is a message over a limit in bytes.
type TooLargeError struct {
	Size, Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a message of %d bytes, limit %d", e.Size, e.Limit)
}

// Split returns the first message of b and what is behind it. The error is that of Reader.Next.
func Split(b []byte, limit int) (msg []byte, compressed bool, rest []byte, err error) {
	switch {
	case len(b) == 0:
		return nil, false, nil, io.EOF
	case len(b) < PrefixLen:
		return nil, false, nil, io.ErrUnexpectedEOF
	}
	n, compressed, err := ParsePrefix(b, limit)
	switch b = b[PrefixLen:]; {
	case err != nil:
		return nil, false, nil, err
	case len(b) < n:
		return nil, false, nil, io.ErrUnexpectedEOF
	}
	return b[:n:n], compressed, b[n:], nil
}

// ParsePrefix returns the length of the message that begins with b, and whether it is compressed. The error is a
// *TooLargeError for a message of more than limit bytes.
func ParsePrefix(b []byte, limit int) (n int, compressed bool, err error) {
	if b[0] > 1 {
		return 0, false, fmt.Errorf("a message with the flags %#x", b[0])
	}
	if n = int(binary.BigEndian.Uint32(b[1:])); n > limit {
		return 0, false, &TooLargeError{n, limit}
	}
	return n, b[0] == 1, nil
}

// Reader reads messages, one after the other.
type Reader struct {
	from  io.Reader
	limit int
	buf   []byte // what was read
	at    int    // what of it was returned
}

const (
	firstBuffer = 512      // what is read at once, enough for one small message
	nextBuffer  = 4 << 10  // the same, of those that are longer or follow
	keptBuffer  = 64 << 10 // the largest memory of a message that the next ones use again
	step        = 64 << 10 // how much memory is taken for bytes that have not come
)

// Init makes the Reader read from r, messages of at most limit bytes.
func (m *Reader) Init(r io.Reader, limit int) { *m = Reader{from: r, limit: limit, buf: m.buf[:0]} }

// Rest lets go of what the Reader reads from, and reports whether its memory is worth keeping for the next Init.
func (m *Reader) Rest() bool {
	m.from = nil
	return cap(m.buf) <= keptBuffer
}

// Next returns the next message, valid until the next call. The error is io.EOF behind the last message,
// io.ErrUnexpectedEOF inside one, or a *TooLargeError.
func (m *Reader) Next() (msg []byte, compressed bool, err error) {
	if err := m.need(PrefixLen); err != nil {
		return nil, false, err
	}
	n, compressed, err := ParsePrefix(m.buf[m.at:], m.limit)
	if err != nil {
		return nil, false, err
	}
	if err := m.need(PrefixLen + n); err != nil {
		return nil, false, err
	}
	from := m.at + PrefixLen
	m.at = from + n
	return m.buf[from:m.at:m.at], compressed, nil
}

// need reads until n bytes are there. Memory grows with what comes, so that a length alone costs nothing.
func (m *Reader) need(n int) error {
	if len(m.buf)-m.at >= n {
		return nil
	}
	if m.at > 0 {
		rest := m.buf[m.at:]
		if cap(m.buf) > keptBuffer && n <= keptBuffer {
			m.buf = nil
		}
		m.buf, m.at = append(m.buf[:0], rest...), 0
	}
	for len(m.buf) < n {
		if room := cap(m.buf) - len(m.buf); room == 0 || room < min(n-len(m.buf), step) {
			least := firstBuffer
			if m.buf != nil {
				least = nextBuffer
			}
			grown := make([]byte, len(m.buf), max(least, min(n, len(m.buf)+step), min(n, 2*cap(m.buf))))
			copy(grown, m.buf)
			m.buf = grown
		}
		k, err := m.from.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+k]
		if err == nil || len(m.buf) >= n {
			continue
		}
		if err == io.EOF && len(m.buf) > 0 { //nolint:errorlint // what an io.Reader returns
			err = io.ErrUnexpectedEOF
		}
		return err //nolint:wrapcheck // the caller tells errors of the stream apart
	}
	return nil
}
