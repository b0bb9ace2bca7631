package wheel

import "fmt"

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// entry is a node of a circular list, 24 bytes without pointers: the garbage
// collector never looks inside a chunk.
type entry struct {
	tick       uint64 // absolute; freeTick in a free entry
	payload    uint64
	next, prev Handle
}

// freeTick marks free entries and sentinels. No armed entry has it, because it lies beyond the last time.
const freeTick = ^uint64(0)

// slab holds the entries in chunks that never move, so growing costs one chunk and copies nothing. It keeps its chunks,
// so memory follows the largest number of armed entries. The first handles are the sentinels of the lists.
type slab struct {
	chunks   []*[chunkSize]entry
	used     Handle // handles given out at least once
	freeList Handle // chained by next, 0 ends it
}

// init makes the sentinels 0 … n-1 of n empty lists.
func (s *slab) init(n Handle) {
	for ; s.used < n; s.used++ {
		s.reserve()
		e := s.at(s.used)
		e.tick, e.next, e.prev = freeTick, s.used, s.used
	}
}

// reserve makes sure that handle s.used has memory.
func (s *slab) reserve() {
	if int(s.used)>>chunkBits == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkSize]entry))
	}
}

func (s *slab) at(h Handle) *entry { return &s.chunks[h>>chunkBits][h&(chunkSize-1)] }

// live returns the entry of an armed handle and panics on any other.
func (s *slab) live(h Handle, op string) *entry {
	if h >= s.used {
		panic(fmt.Sprintf("wheel: %s of unknown handle %d", op, h))
	}
	e := s.at(h)
	if e.tick == freeTick {
		panic(fmt.Sprintf("wheel: %s of handle %d, which is not armed", op, h))
	}
	return e
}

func (s *slab) alloc() Handle {
	if h := s.freeList; h != 0 {
		s.freeList = s.at(h).next
		return h
	}
	if s.used == ^Handle(0) {
		panic(fmt.Sprintf("wheel: more than %d entries armed", s.used))
	}
	s.reserve()
	h := s.used
	s.used++
	return h
}

func (s *slab) free(h Handle) {
	e := s.at(h)
	e.tick = freeTick
	e.next = s.freeList
	s.freeList = h
}

func (s *slab) empty(list Handle) bool { return s.at(list).next == list }

// push appends e, whose handle is h, to a list.
func (s *slab) push(list, h Handle, e *entry) {
	head := s.at(list)
	e.next, e.prev = list, head.prev
	s.at(head.prev).next = h
	head.prev = h
}

func (s *slab) unlink(e *entry) {
	s.at(e.prev).next = e.next
	s.at(e.next).prev = e.prev
}

// splice moves all entries of the list src to the end of the list dst.
func (s *slab) splice(dst, src Handle) {
	from, to := s.at(src), s.at(dst)
	if from.next == src {
		return
	}
	s.at(to.prev).next = from.next
	s.at(from.next).prev = to.prev
	s.at(from.prev).next = dst
	to.prev = from.prev
	from.next, from.prev = src, src
}
