package buf

import "io"

// Reader reads a Composite from its beginning. It implements io.Reader, io.ByteReader and io.WriterTo, and belongs to the
// composite's goroutine. Reading does not change the composite.
type Reader struct {
	c    *Composite
	part int
	at   int // in the part
	left int
}

// Reader returns a reader of the composite.
func (c *Composite) Reader() *Reader {
	c.use("Reader")
	return &Reader{c: c, left: c.size}
}

// Len returns the number of bytes not read yet.
func (r *Reader) Len() int { return r.left }

// rest returns what is left of the current part.
func (r *Reader) rest() []byte {
	r.c.use("Read")
	return r.c.parts[r.part].Bytes[r.at:]
}

// advance goes on by n bytes inside the current part.
func (r *Reader) advance(n int) {
	r.left -= n
	r.at += n
	if r.at == len(r.c.parts[r.part].Bytes) {
		r.part, r.at = r.part+1, 0
	}
}

// Read fills p as far as there are bytes and returns io.EOF when there are none.
func (r *Reader) Read(p []byte) (n int, err error) {
	if r.left == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	for r.left > 0 && n < len(p) {
		k := copy(p[n:], r.rest())
		r.advance(k)
		n += k
	}
	return n, nil
}

// ReadByte returns the next byte, or io.EOF.
func (r *Reader) ReadByte() (byte, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	b := r.rest()[0]
	r.advance(1)
	return b, nil
}

// WriteTo writes what is left to w, one call per part.
func (r *Reader) WriteTo(w io.Writer) (total int64, err error) {
	for r.left > 0 {
		b := r.rest()
		n, err := w.Write(b)
		if n > 0 {
			r.advance(n)
			total += int64(n)
		}
		if err != nil {
			return total, err
		}
		if n < len(b) {
			return total, io.ErrShortWrite
		}
	}
	return total, nil
}
