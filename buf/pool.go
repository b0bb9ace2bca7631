package buf

import "math/bits"

const (
	minShift = 9  // 512 B
	maxShift = 20 // 1 MiB
	classes  = maxShift - minShift + 1

	// MinSegment and MaxSegment are the smallest and the largest capacity, in bytes,
	// that a Pool recycles. Classes are the powers of two between them.
	MinSegment = 1 << minShift
	MaxSegment = 1 << maxShift

	// DefaultRetained is the retained memory of a Pool made with 0, in bytes.
	DefaultRetained = 4 << 20

	// maxHeaders bounds the free list of segment headers without memory.
	maxHeaders = 1024
)

// Pool hands out segments and keeps returned ones for reuse, in one free list per
// size class. It is owned by one goroutine and must not be used by another.
type Pool struct {
	free     [classes]*Segment // chained by Next
	held     [classes]int      // bytes in each list
	headers  *Segment          // headers without memory
	nHeaders int
	retained int
	limit    int
	leaks    *Leaks
	sampler  sampler
}

// NewPool returns a pool that keeps at most maxRetained bytes of free segments, and
// at most half of that in one size class. 0 means DefaultRetained, a negative
// number means that nothing is kept.
func NewPool(maxRetained int) *Pool {
	if maxRetained == 0 {
		maxRetained = DefaultRetained
	}
	return &Pool{limit: max(maxRetained, 0)}
}

// Watch makes l watch the segments that Get returns from now on; nil ends that.
func (p *Pool) Watch(l *Leaks) { p.leaks = l }

// Retained returns the bytes of segment memory on the free lists.
func (p *Pool) Retained() int { return p.retained }

// Get returns an empty segment with a capacity of at least size bytes: the next
// size class, or exactly size above MaxSegment. Such a large one is not recycled.
func (p *Pool) Get(size int) *Segment {
	var s *Segment
	if c := classOf(size); c == unclassed {
		s = p.wrap(make([]byte, size), unclassed)
	} else if s = p.free[c]; s == nil {
		s = p.wrap(make([]byte, MinSegment<<c), c)
	} else {
		p.free[c] = s.Next
		p.held[c] -= len(s.b)
		p.retained -= len(s.b)
		s.Next = nil
		s.pooled = false
		checkPoison(s.b)
	}
	if p.leaks != nil && p.sampler.next(p.leaks) {
		s.trace = watch(p.leaks, s, "segment", len(s.b))
	}
	return s
}

// Adopt returns a full segment over b without copying it. b must not be changed until the segment has been put back. The
// segment has no free space. Only its header is recycled, never b.
func (p *Pool) Adopt(b []byte) *Segment {
	s := p.wrap(b, unclassed)
	s.end = len(b)
	s.adopted = true
	s.sum.take(b)
	return s
}

// AdoptShared is Adopt for b that lies in the counted buffer owner. It takes over one reference to owner, which Put
// releases.
func (p *Pool) AdoptShared(b []byte, owner *Shared) *Segment {
	owner.Touch("AdoptShared")
	s := p.Adopt(b)
	s.owner = owner
	return s
}

// Put takes a segment back, and releases the reference that AdoptShared took over. Neither the segment nor a slice of
// its memory may be used afterwards. Put panics when s has been put back already.
func (p *Pool) Put(s *Segment) {
	if s.pooled {
		panic("buf: segment put back twice")
	}
	if s.trace != nil || s.owner != nil {
		s.settle()
	}
	c := s.class
	size := len(s.b)
	s.Next, s.start, s.end = nil, 0, 0
	s.pooled = true
	if !s.adopted {
		Poison(s.b)
	}
	if c == unclassed || p.retained+size > p.limit || p.held[c]+size > p.limit/2 {
		p.putHeader(s)
		return
	}
	s.Next = p.free[c]
	p.free[c] = s
	p.held[c] += size
	p.retained += size
}

// wrap gives b a header.
func (p *Pool) wrap(b []byte, class int8) *Segment {
	s := p.headers
	if s == nil {
		return &Segment{b: b, class: class}
	}
	p.headers = s.Next
	p.nHeaders--
	*s = Segment{b: b, class: class}
	return s
}

// putHeader drops the memory of s and keeps its header if there is room.
func (p *Pool) putHeader(s *Segment) {
	s.b = nil
	s.adopted = false
	if p.nHeaders == maxHeaders {
		return
	}
	s.Next = p.headers
	p.headers = s
	p.nHeaders++
}

const unclassed int8 = -1

// classOf returns the class whose segments hold at least size bytes.
func classOf(size int) int8 {
	switch {
	case size <= MinSegment:
		return 0
	case size > MaxSegment:
		return unclassed
	}
	return int8(bits.Len(uint(size-1)) - minShift)
}
