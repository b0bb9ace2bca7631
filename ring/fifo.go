package ring

// fifo is a growing queue of messages that knows their size in the log. Its owner bounds it.
type fifo struct {
	q     [][]byte
	head  int
	bytes int64
}

func (f *fifo) len() int { return len(f.q) - f.head }

func (f *fifo) push(m []byte) {
	if f.head > len(f.q)/2 && len(f.q) == cap(f.q) { // reuse the room in front before growing
		n := copy(f.q, f.q[f.head:])
		clear(f.q[n:])
		f.q, f.head = f.q[:n], 0
	}
	f.q = append(f.q, m)
	f.bytes += recordSize(m)
}

func (f *fifo) pop() []byte {
	m := f.q[f.head]
	f.q[f.head] = nil
	f.head++
	f.bytes -= recordSize(m)
	if f.head == len(f.q) {
		f.q, f.head = f.q[:0], 0
	}
	return m
}

// first returns a copy of at most n messages at the front.
func (f *fifo) first(n int) [][]byte {
	return append([][]byte(nil), f.q[f.head:f.head+min(n, f.len())]...)
}

// drop removes n messages from the front.
func (f *fifo) drop(n int) {
	for range n {
		f.pop()
	}
}

// take removes and returns everything.
func (f *fifo) take() [][]byte {
	all := f.first(f.len())
	*f = fifo{}
	return all
}
