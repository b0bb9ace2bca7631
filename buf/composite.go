package buf

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
)

const (
	// DefaultMaxParts is the bound of a Composite whose MaxParts is 0. One gathered write of the engine takes that many
	// parts.
	DefaultMaxParts = 64
	// MaxCollected is the most that the last part of a full Composite collects, in bytes.
	MaxCollected = 64 << 10
)

// ErrTooManyParts is matched by the error of an append beyond the bounds of a Composite.
var ErrTooManyParts = errors.New("buf: composite is full")

// Part is one piece of a Composite. Owner is the counted buffer that Bytes lies in, nil for memory of the collector.
type Part struct {
	Bytes []byte
	Owner *Shared

	end int // offset of the part's end in the composite
}

// Composite joins several runs of bytes, such as a header and a body or the chunks of a message, without copying them.
// They read as one. The zero value is empty and ready for use; a Composite must not be copied.
//
// One goroutine fills and reads a composite, and gives it away as a whole. As an outbound message it carries its parts
// along: Conn.Write takes them over whatever it returns. The engine sends them with one gathered write, long ones from
// where they are. A composite that holds counted buffers and is not written must be released. After a write or release,
// every use panics.
//
// The number of parts is bounded, and the last one allowed collects. Once there are MaxParts-1 parts, further bytes are
// copied there one behind the other, up to MaxCollected bytes. A first append longer than that becomes the last part
// itself, without a copy. Joined bytes are never copied again, and an append without room returns an error.
type Composite struct {
	MaxParts int // 0 = DefaultMaxParts; at least 2; set it before the first append

	parts      []Part
	first      [4]Part
	size       int
	gone       atomic.Bool
	collecting bool // the last part does
}

// Append joins b, which nobody may change from now on. If b has no room, the error matches ErrTooManyParts and b is not
// joined.
func (c *Composite) Append(b []byte) error { return c.append(Part{Bytes: b}) }

// AppendShared joins the bytes of s and takes over one reference, even when it returns an error.
func (c *Composite) AppendShared(s *Shared) error {
	err := c.append(Part{Bytes: s.Bytes(), Owner: s})
	if err != nil {
		s.Release()
	}
	return err
}

// append joins p. An owner's reference is taken over unless an error is returned.
func (c *Composite) append(p Part) error {
	c.use("Append")
	limit := c.MaxParts
	if limit == 0 {
		limit = DefaultMaxParts
	}
	n := len(p.Bytes)
	switch free := limit - len(c.parts); {
	case limit < 2:
		return fmt.Errorf("%w: MaxParts is %d, the least is 2", ErrTooManyParts, limit)
	case n == 0:
		p.release()
	case free > 1 || free == 1 && n > MaxCollected:
		c.join(p)
	case free == 1:
		c.collecting = true
		c.join(Part{})
		c.collect(p)
	case c.collecting && len(c.parts[limit-1].Bytes)+n <= MaxCollected:
		c.collect(p)
	default:
		return fmt.Errorf("%w: %d bytes behind %d parts and %d bytes, limit %d parts, of which the last collects at most %d bytes",
			ErrTooManyParts, n, len(c.parts), c.size, limit, MaxCollected)
	}
	return nil
}

// join adds a part.
func (c *Composite) join(p Part) {
	if c.parts == nil {
		c.parts = c.first[:0]
	}
	c.size += len(p.Bytes)
	p.end = c.size
	c.parts = append(c.parts, p)
}

// collect copies p behind the last part.
func (c *Composite) collect(p Part) {
	last := &c.parts[len(c.parts)-1]
	last.Bytes = append(last.Bytes, p.Bytes...)
	c.size += len(p.Bytes)
	last.end = c.size
	p.release()
}

func (p *Part) release() {
	if p.Owner != nil {
		p.Owner.Release()
	}
}

// Len returns the number of bytes.
func (c *Composite) Len() int {
	c.use("Len")
	return c.size
}

// Parts returns the number of parts.
func (c *Composite) Parts() int {
	c.use("Parts")
	return len(c.parts)
}

// At returns the byte at offset i. Like an index of a slice it panics when there is none.
func (c *Composite) At(i int) byte {
	k, at := c.find("At", i)
	return c.parts[k].Bytes[at]
}

// Index returns the offset of the first sep that begins at or after from, -1 if there is none. Index also finds a sep
// that lies across parts.
func (c *Composite) Index(sep []byte, from int) int {
	c.use("Index")
	if from < 0 || from > c.size {
		panic(fmt.Sprintf("buf: offset %d in a composite of %d bytes", from, c.size))
	}
	if len(sep) == 0 {
		return from
	}
	for from+len(sep) <= c.size {
		k, at := c.locate(from)
		i := bytes.IndexByte(c.parts[k].Bytes[at:], sep[0])
		if i < 0 {
			from = c.parts[k].end
			continue
		}
		if from += i; c.hasAt(k, at+i, sep) {
			return from
		}
		from++
	}
	return -1
}

// hasAt reports whether sep begins at byte at of part k.
func (c *Composite) hasAt(k, at int, sep []byte) bool {
	for ; k < len(c.parts); k++ {
		b := c.parts[k].Bytes[at:]
		n := min(len(b), len(sep))
		if !bytes.Equal(b[:n], sep[:n]) {
			return false
		}
		if sep = sep[n:]; len(sep) == 0 {
			return true
		}
		at = 0
	}
	return false
}

// CopyTo copies the bytes from offset from on to dst and returns how many were copied.
func (c *Composite) CopyTo(dst []byte, from int) int {
	c.use("CopyTo")
	if from == c.size {
		return 0
	}
	k, at := c.find("CopyTo", from)
	n := copy(dst, c.parts[k].Bytes[at:])
	for k++; k < len(c.parts) && n < len(dst); k++ {
		n += copy(dst[n:], c.parts[k].Bytes)
	}
	return n
}

// Buffers appends the parts to list, for a gathered write. They are valid as long as the composite is, and must not be
// changed.
func (c *Composite) Buffers(list [][]byte) [][]byte {
	c.use("Buffers")
	for i := range c.parts {
		list = append(list, c.parts[i].Bytes)
	}
	return list
}

// Slice returns the bytes from from up to, but without, to as a composite of their own that shares the memory. The slice
// holds references of its own to the counted buffers it lies in, so each of the two is released or written by itself.
func (c *Composite) Slice(from, to int) *Composite {
	c.use("Slice")
	if from < 0 || to < from || to > c.size {
		panic(fmt.Sprintf("buf: slice [%d:%d] of a composite of %d bytes", from, to, c.size))
	}
	s := &Composite{MaxParts: c.MaxParts}
	for off := from; off < to; {
		k, at := c.locate(off)
		b, owner := c.parts[k].Bytes[at:], c.parts[k].Owner
		n := min(len(b), to-off)
		if owner != nil {
			owner.Retain()
		}
		s.join(Part{Bytes: b[:n:n], Owner: owner})
		off += n
	}
	return s
}

// Release gives back the references that the composite holds and ends it.
func (c *Composite) Release() {
	for _, p := range c.take("Release") {
		p.release()
	}
}

// Take ends the composite and returns its parts, with the references they carry, to the caller. When several goroutines
// call Take, one gets the parts and the others panic.
func (c *Composite) Take() []Part { return c.take("Take") }

func (c *Composite) take(what string) []Part {
	if c.gone.Swap(true) {
		panicGone(what)
	}
	parts := c.parts
	c.parts, c.size = nil, 0
	return parts
}

// use panics after the end.
func (c *Composite) use(what string) {
	if c.gone.Load() {
		panicGone(what)
	}
}

func panicGone(what string) {
	panic("buf: " + what + " of a composite that was written or released")
}

// find returns the part and the place in it of offset i, which must be inside.
func (c *Composite) find(what string, i int) (part, at int) {
	c.use(what)
	if i < 0 || i >= c.size {
		panic(fmt.Sprintf("buf: offset %d in a composite of %d bytes", i, c.size))
	}
	return c.locate(i)
}

// locate is find without checks.
func (c *Composite) locate(i int) (part, at int) {
	low, high := 0, len(c.parts)-1
	for low < high {
		if mid := int(uint(low+high) >> 1); c.parts[mid].end <= i {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, i - (c.parts[low].end - len(c.parts[low].Bytes))
}
