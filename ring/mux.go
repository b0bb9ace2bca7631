package ring

// Mux collects the messages of a fixed number of producers, each with a ring of its own, for one consumer. Messages of
// one producer stay in order; the consumer takes the producers in turn.
//
// Each producer's ring belongs to one goroutine, the consumer's methods to one.
type Mux[T any] struct {
	rings []*SPSC[T]
	ready []int // messages of each ring, in the snapshot that Available took
	left  int   // in the whole snapshot
	next  int
	first int // next, as of the last Release
}

// NewMux makes a multiplexer with a ring of capacity slots for each producer.
func NewMux[T any](producers, capacity int) (*Mux[T], error) {
	rings, err := newRings[T]("producers", producers, capacity)
	if err != nil {
		return nil, err
	}
	return &Mux[T]{rings: rings, ready: make([]int, producers)}, nil
}

// Producers returns the number of producers. Any goroutine.
func (m *Mux[T]) Producers() int { return len(m.rings) }

// Producer returns the ring that producer i fills.
func (m *Mux[T]) Producer(i int) *SPSC[T] { return m.rings[i] }

// Available looks at all producers once and returns how many messages Fetch will give without another look.
func (m *Mux[T]) Available() int {
	m.left = 0
	for i, r := range m.rings {
		m.ready[i] = r.Available()
		m.left += m.ready[i]
	}
	return m.left
}

// Fetch returns a message of the next producer that has one, nil when there is none. It may be used until Release.
func (m *Mux[T]) Fetch() *T {
	if m.left == 0 && m.Available() == 0 {
		return nil
	}
	for m.ready[m.next] == 0 {
		m.turn()
	}
	slot := m.rings[m.next].Fetch()
	m.ready[m.next]--
	m.left--
	m.turn()
	return slot
}

// FetchBatch returns up to n messages of the next producer that has any, as far as they lie side by side, or none when
// there are none. They count like as many calls of Fetch. See SPSC.FetchBatch.
func (m *Mux[T]) FetchBatch(n int) []T {
	if n < 1 || m.left == 0 && m.Available() == 0 {
		return nil
	}
	for m.ready[m.next] == 0 {
		m.turn()
	}
	run := m.rings[m.next].FetchBatch(min(n, m.ready[m.next]))
	m.ready[m.next] -= len(run)
	m.left -= len(run)
	m.turn()
	return run
}

func (m *Mux[T]) turn() {
	if m.next++; m.next == len(m.rings) {
		m.next = 0
	}
}

// Release gives the slots that were fetched back to their producers.
func (m *Mux[T]) Release() {
	for _, r := range m.rings {
		if r.Unreleased() > 0 {
			r.Release()
		}
	}
	m.first = m.next
}

// RollBack makes everything that was fetched since the last Release available again. The consumer's turn goes back to
// the producer it was at then.
func (m *Mux[T]) RollBack() {
	for i, r := range m.rings {
		n := r.Unreleased()
		r.fetched -= uint64(n)
		m.ready[i] += n
		m.left += n
	}
	m.next = m.first
}

// Len returns the number of published messages that were not released. Any goroutine.
func (m *Mux[T]) Len() int { return lenOf(m.rings) }

// Clear drops everything. Only while nobody uses the rings.
func (m *Mux[T]) Clear() {
	clear(m.ready)
	m.left, m.next, m.first = 0, 0, 0
	for _, r := range m.rings {
		r.Clear()
	}
}
