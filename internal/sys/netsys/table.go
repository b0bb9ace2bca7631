package netsys

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// A descriptor consists of an index into the table and, above it, the generation of the entry, which is never 0. So it
// fits into 31 bits, does not come back soon after a Close, and is larger than any descriptor of the kernel.
const (
	indexBits = 24
	indexMask = 1<<indexBits - 1
	lastGen   = 1<<(31-indexBits) - 1
	chunkBits = 12
	chunkSize = 1 << chunkBits
)

// table finds what a descriptor names, without a lock. It grows by chunks, which never move.
type table struct {
	chunks [1 << (indexBits - chunkBits)]atomic.Pointer[chunk]

	mu   sync.Mutex
	free []uint32
	next uint32 // indexes below it have been used
}

type chunk struct {
	nodes [chunkSize]atomic.Pointer[node]
	gens  [chunkSize]uint8 // guarded by table.mu
}

// insert gives n a descriptor.
func (t *table) insert(n *node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var index uint32
	switch k := len(t.free); {
	case k > 0:
		index = t.free[k-1]
		t.free = t.free[:k-1]
	case t.next > indexMask:
		return syscall.EMFILE
	default:
		index = t.next
		t.next++
		if index%chunkSize == 0 {
			t.chunks[index>>chunkBits].Store(new(chunk))
		}
	}
	c := t.chunks[index>>chunkBits].Load()
	gen := &c.gens[index%chunkSize]
	if *gen++; *gen > lastGen {
		*gen = 1
	}
	n.fd = int(*gen)<<indexBits | int(index)
	c.nodes[index%chunkSize].Store(n)
	return nil
}

// lookup returns what fd names, or EBADF.
func (t *table) lookup(fd int) (*node, error) {
	if fd >= 1<<indexBits {
		index := fd & indexMask
		if c := t.chunks[index>>chunkBits].Load(); c != nil {
			if n := c.nodes[index%chunkSize].Load(); n != nil && n.fd == fd {
				return n, nil
			}
		}
	}
	return nil, syscall.EBADF
}

// remove frees fd and returns what it named, to one caller only.
func (t *table) remove(fd int) (*node, error) {
	n, err := t.lookup(fd)
	if err != nil {
		return nil, err
	}
	index := fd & indexMask
	if !t.chunks[index>>chunkBits].Load().nodes[index%chunkSize].CompareAndSwap(n, nil) {
		return nil, syscall.EBADF
	}
	t.mu.Lock()
	t.free = append(t.free, uint32(index))
	t.mu.Unlock()
	return n, nil
}
