package buf

import "fmt"

// Segment is a piece of memory with a readable part followed by a writable tail. A segment comes from a Pool and belongs
// to the pool's goroutine.
type Segment struct {
	// Next links segments into the owner's queue. The pool clears it.
	Next *Segment

	b          []byte
	start, end int // b[start:end] is readable
	class      int8
	adopted    bool
	pooled     bool
	sum        checksum // of an adopted slice
	trace      *trace   // nil unless leak detection watches this one
	owner      *Shared  // whose reference the adopted slice carries
}

// Bytes returns the readable part. It is valid until the segment is put back.
func (s *Segment) Bytes() []byte { return s.b[s.start:s.end] }

// Free returns the writable tail, empty for an adopted segment. Commit makes bytes written there readable.
func (s *Segment) Free() []byte { return s.b[s.end:] }

// Commit makes the next n bytes of the tail readable. It panics when the tail is shorter than n.
func (s *Segment) Commit(n int) {
	if n < 0 || n > len(s.b)-s.end {
		panic(fmt.Sprintf("buf: commit of %d bytes, %d free", n, len(s.b)-s.end))
	}
	s.end += n
	if s.trace != nil {
		s.trace.touch("Commit")
	}
}

// Consume drops n bytes from the front of the readable part. It panics when that part is shorter than n. Consuming
// everything makes the whole capacity writable again, except in an adopted segment.
func (s *Segment) Consume(n int) {
	if n < 0 || n > s.end-s.start {
		panic(fmt.Sprintf("buf: consume of %d bytes, %d readable", n, s.end-s.start))
	}
	s.start += n
	if s.start == s.end && !s.adopted {
		s.start, s.end = 0, 0
	}
	if s.trace != nil {
		s.trace.touch("Consume")
	}
}

// Len returns the number of readable bytes.
func (s *Segment) Len() int { return s.end - s.start }

// Cap returns the size of the memory in bytes.
func (s *Segment) Cap() int { return len(s.b) }

// Reset drops the readable bytes. An adopted segment stays without free space.
func (s *Segment) Reset() {
	if s.adopted {
		s.start = s.end
		return
	}
	s.start, s.end = 0, 0
}

// Append copies as much of p as fits into the tail, makes it readable and returns how many bytes that was.
func (s *Segment) Append(p []byte) int {
	n := copy(s.b[s.end:], p)
	s.end += n
	if s.trace != nil {
		s.trace.touch("Append")
	}
	return n
}

// Compact moves the readable part to the front, so that all free space is at the
// end. It does nothing to an adopted segment.
func (s *Segment) Compact() {
	if s.adopted || s.start == 0 {
		return
	}
	s.end = copy(s.b, s.b[s.start:s.end])
	s.start = 0
}

// settle ends the watch over s and releases the reference that s carries.
func (s *Segment) settle() {
	if s.trace != nil {
		unwatch(s, s.trace)
		s.trace = nil
	}
	if s.owner != nil {
		s.owner.Release()
		s.owner = nil
	}
}

// Verify returns an error when an adopted slice was changed after it was adopted. Only a build with the tag eddydebug
// can tell; without the tag Verify returns nil.
func (s *Segment) Verify() error {
	if !s.adopted || s.sum.holds(s.b) {
		return nil
	}
	return fmt.Errorf("buf: an adopted slice of %d bytes was changed before it was given back; it now begins with %q", len(s.b), s.b[:min(len(s.b), 32)])
}

// Cut takes the readable bytes from index from up to index to out. The bytes behind them move forward. An adopted segment
// can lose bytes only at its ends, because its memory is not the pool's to change. Cut panics when the bytes are not
// readable, or in the middle of an adopted segment.
func (s *Segment) Cut(from, to int) {
	switch {
	case from < 0 || to < from || to > s.Len():
		panic(fmt.Sprintf("buf: cut of %d to %d, %d readable", from, to, s.Len()))
	case to == s.Len():
		s.end = s.start + from
	case from == 0:
		s.start += to
	case s.adopted:
		panic("buf: cut out of the middle of an adopted segment")
	default:
		b := s.Bytes()
		copy(b[from:], b[to:])
		s.end -= to - from
	}
	if s.trace != nil {
		s.trace.touch("Cut")
	}
}
