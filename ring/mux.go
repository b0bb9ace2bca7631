package ring

// Mux collects the messages of a fixed number of producers, each with a ring of its own, for one consumer. Messages of
// one producer stay in order; between producers the consumer goes round.
//
// Each producer's ring belongs to one goroutine, the consumer's methods to one.
type Mux[T any] struct {
	rings []*SPSC[T]
	ready []int // of each ring, in the snapshot that Available took
	left  int   // in the whole snapshot
	next  int
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
}

// Len returns the number of published messages that were not released. Any goroutine.
func (m *Mux[T]) Len() int { return lenOf(m.rings) }

// Clear drops everything. Only while nobody uses it.
func (m *Mux[T]) Clear() {
	clear(m.ready)
	m.left, m.next = 0, 0
	for _, r := range m.rings {
		r.Clear()
	}
}
