package netsys

import "sync"

// Sizes of the memory between a connection and its goroutines. A large block is what one system call moves, and bounds
// the bytes that wait in one direction. Bytes that fit into a small block wait there.
const (
	largeBlock = 32 << 10
	smallBlock = 2 << 10
)

// block is a buffer that is written at w and read at r.
type block struct {
	data []byte
	r, w int
}

func (b *block) bytes() []byte { return b.data[b.r:b.w] }
func (b *block) free() int     { return len(b.data) - b.w }

func (b *block) append(p []byte) int {
	n := copy(b.data[b.w:], p)
	b.w += n
	return n
}

// blocks holds the spare blocks. Idle connections hold none.
type blocks struct{ small, large sync.Pool }

// get returns an empty block with room for size bytes, which is at most largeBlock.
func (b *blocks) get(size int) *block {
	pool, length := &b.large, largeBlock
	if size <= smallBlock {
		pool, length = &b.small, smallBlock
	}
	if v, _ := pool.Get().(*block); v != nil {
		return v
	}
	return &block{data: make([]byte, length)}
}

// put takes a block back.
func (b *blocks) put(v *block) {
	v.r, v.w = 0, 0
	if len(v.data) == smallBlock {
		b.small.Put(v)
	} else {
		b.large.Put(v)
	}
}

// join puts what is in more behind what is in in, which may be nil, and returns the block that has both. They must fit
// into a large block.
func (b *blocks) join(in, more *block) *block {
	size := len(more.bytes())
	if in == nil && size > smallBlock {
		return more
	}
	switch {
	case in == nil:
		in = b.get(size)
	case in.free() < size:
		all := b.get(len(in.bytes()) + size)
		all.append(in.bytes())
		b.put(in)
		in = all
	}
	in.append(more.bytes())
	b.put(more)
	return in
}
