package executor

// fifo is a FIFO queue in a circular array that doubles when it is full. The zero
// value is empty and holds no memory. The bound is the caller's concern.
type fifo[T any] struct {
	items   []T // length is a power of two, or 0
	head, n uint32
}

const (
	// firstItems is the capacity after the first push.
	firstItems = 4
	// keptItems is the largest capacity that an empty fifo keeps in trim, so that short
	// bursts allocate nothing and an idle fifo holds little.
	keptItems = 16
)

func (r *fifo[T]) len() int { return int(r.n) }

func (r *fifo[T]) push(v T) {
	if int(r.n) == len(r.items) {
		r.grow()
	}
	r.items[(r.head+r.n)&uint32(len(r.items)-1)] = v
	r.n++
}

// pop takes the oldest item.
func (r *fifo[T]) pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	p := &r.items[r.head]
	var zero T
	v, *p = *p, zero
	r.head = (r.head + 1) & uint32(len(r.items)-1)
	r.n--
	return v, true
}

// popLast takes the newest item.
func (r *fifo[T]) popLast() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	r.n--
	p := &r.items[(r.head+r.n)&uint32(len(r.items)-1)]
	var zero T
	v, *p = *p, zero
	return v, true
}

// peek returns the oldest item.
func (r *fifo[T]) peek() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	return r.items[r.head], true
}

// remove takes out the oldest item that matches, looking only at the oldest limit items.
func (r *fifo[T]) remove(limit int, match func(T) bool) (v T, ok bool) {
	mask := uint32(len(r.items) - 1)
	for i := range min(uint32(limit), r.n) {
		if v = r.items[(r.head+i)&mask]; !match(v) {
			continue
		}
		for ; i > 0; i-- {
			r.items[(r.head+i)&mask] = r.items[(r.head+i-1)&mask]
		}
		r.pop() // frees the vacated place at the front
		return v, true
	}
	var zero T
	return zero, false
}

// trim gives back the memory of an empty fifo that has grown.
func (r *fifo[T]) trim() {
	if r.n == 0 && len(r.items) > keptItems {
		*r = fifo[T]{}
	}
}

func (r *fifo[T]) grow() {
	items := make([]T, max(firstItems, 2*len(r.items)))
	k := copy(items, r.items[r.head:])
	copy(items[k:], r.items[:r.head])
	r.items, r.head = items, 0
}
