package transport

import "github.com/go-eddy/eddy/buf"

const (
	// smallLeftover is the size up to which a leftover moves to the front of the loop's scratch buffer for the next read. A
	// longer one stays in its segment, and the read goes straight behind it.
	smallLeftover = 2 << 10
	// minReadSpace is the least room that a read behind a leftover is given.
	minReadSpace = 16 << 10
	// RoomyFactor is the ratio of segment to leftover from which the leftover moves to a smaller segment.
	RoomyFactor = 4
)

// Leftover is the undecoded end of an input, in a pooled segment. The zero value holds none, and costs no segment. Owned by
// the loop; pool is always the loop's.
type Leftover struct{ seg *buf.Segment }

// Held reports whether there is a leftover.
func (o *Leftover) Held() bool { return o.seg != nil }

// Len returns the length of the leftover.
func (o *Leftover) Len() int {
	if o.seg == nil {
		return 0
	}
	return o.seg.Len()
}

// Memory returns the size of the segment that the leftover is in.
func (o *Leftover) Memory() int {
	if o.seg == nil {
		return 0
	}
	return o.seg.Cap()
}

// Bytes returns the leftover, which must be held. The result is valid until the next change.
func (o *Leftover) Bytes() []byte { return o.seg.Bytes() }

// Keep copies p, which is not empty, while nothing is held.
func (o *Leftover) Keep(pool *buf.Pool, p []byte) {
	o.seg = pool.Get(len(p))
	o.seg.Append(p)
}

// Add copies p behind what is held.
func (o *Leftover) Add(pool *buf.Pool, p []byte) {
	if len(o.seg.Free()) < len(p) {
		o.grow(pool, max(2*o.seg.Len(), o.seg.Len()+len(p)))
	}
	o.seg.Append(p)
}

// Stage prepares the place for a read. A small leftover moves to the front of scratch, which has room for it, and its size is
// returned. A large one gets room behind it, see Free.
func (o *Leftover) Stage(pool *buf.Pool, scratch []byte) int {
	if o.seg == nil {
		return 0
	}
	if held := o.seg.Len(); held <= smallLeftover {
		copy(scratch, o.seg.Bytes())
		o.Drop(pool)
		return held
	}
	if len(o.seg.Free()) < minReadSpace {
		o.grow(pool, max(2*o.seg.Len(), o.seg.Len()+minReadSpace))
	}
	return 0
}

// Free returns the room behind the leftover, which must be held, for a read; Commit counts what was read.
func (o *Leftover) Free() []byte { return o.seg.Free() }

// Commit makes n bytes of Free part of the leftover.
func (o *Leftover) Commit(n int) { o.seg.Commit(n) }

// Consume takes n bytes off the front.
func (o *Leftover) Consume(pool *buf.Pool, n int) {
	if o.seg.Consume(n); o.seg.Len() == 0 {
		o.Drop(pool)
	}
}

// Trim moves the leftover out of a segment that is far too large for it. The peer may let it wait for any
// time.
func (o *Leftover) Trim(pool *buf.Pool) {
	if o.seg.Cap() >= RoomyFactor*max(o.seg.Len(), buf.MinSegment) {
		o.grow(pool, o.seg.Len())
	}
}

// Drop gives the leftover back, if there is one.
func (o *Leftover) Drop(pool *buf.Pool) {
	if o.seg != nil {
		pool.Put(o.seg)
		o.seg = nil
	}
}

// grow moves the leftover to a segment of at least size bytes.
func (o *Leftover) grow(pool *buf.Pool, size int) {
	s := pool.Get(size)
	s.Append(o.seg.Bytes())
	pool.Put(o.seg)
	o.seg = s
}
