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
	n, compressed, err := parsePrefix(b, limit)
	switch b = b[PrefixLen:]; {
	case err != nil:
		return nil, false, nil, err
	case len(b) < n:
		return nil, false, nil, io.ErrUnexpectedEOF
	}
	return b[:n:n], compressed, b[n:], nil
}

// parsePrefix returns the length of a message.
func parsePrefix(b []byte, limit int) (n int, compressed bool, err error) {
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
	from   io.Reader
	limit  int
	prefix [PrefixLen]byte
	buf    []byte
}

// keptBuffer is the largest memory of a message that the next one uses again.
const keptBuffer = 64 << 10

// Init makes the Reader read from r, messages of at most limit bytes.
func (m *Reader) Init(r io.Reader, limit int) { m.from, m.limit = r, limit }

// Next returns the next message, valid until the next call. The error is io.EOF behind the last message,
// io.ErrUnexpectedEOF inside one, or a *TooLargeError.
func (m *Reader) Next() (msg []byte, compressed bool, err error) {
	if _, err := io.ReadFull(m.from, m.prefix[:]); err != nil {
		return nil, false, err //nolint:wrapcheck // io.EOF must stay bare
	}
	n, compressed, err := parsePrefix(m.prefix[:], m.limit)
	if err != nil {
		return nil, false, err
	}
	if cap(m.buf) > keptBuffer && n <= keptBuffer {
		m.buf = nil
	}
	if m.buf, err = m.fill(m.buf[:0], n); err != nil {
		return nil, false, err
	}
	return m.buf, compressed, nil
}

// step is how much memory is taken for bytes that have not come.
const step = 64 << 10

// fill appends n bytes to b. It takes memory as they come, so that a length alone costs nothing.
func (m *Reader) fill(b []byte, n int) ([]byte, error) {
	for n > 0 {
		k := min(n, max(step, cap(b)-len(b)))
		if cap(b)-len(b) < k {
			grown := make([]byte, len(b), max(2*cap(b), len(b)+k))
			copy(grown, b)
			b = grown
		}
		b = b[:len(b)+k]
		if _, err := io.ReadFull(m.from, b[len(b)-k:]); err != nil {
			if err == io.EOF { //nolint:errorlint // what io.ReadFull returns
				err = io.ErrUnexpectedEOF
			}
			return b, err //nolint:wrapcheck // the caller tells errors of the stream apart
		}
		n -= k
	}
	return b, nil
}
