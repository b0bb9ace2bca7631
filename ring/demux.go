package ring

import "fmt"

// Demux distributes the messages of one producer over a fixed number of consumers. Each consumer has a ring of its own,
// so every message is handled once. A message for any consumer goes to the next one in turn whose ring has room.
// Messages for a certain consumer share its ring, which keeps them in order. Between consumers there is no order. A
// message behind a slow one waits although another consumer may be idle; Shared has no such wait.
//
// The producer's methods belong to one goroutine, and each consumer's ring to one.
type Demux[T any] struct {
	rings   []*SPSC[T]
	next    int
	touched []bool // rings with slots that are not published
}

// NewDemux makes a demultiplexer with a ring of capacity slots for each consumer.
func NewDemux[T any](consumers, capacity int) (*Demux[T], error) {
	rings, err := newRings[T]("consumers", consumers, capacity)
	if err != nil {
		return nil, err
	}
	return &Demux[T]{rings: rings, touched: make([]bool, consumers)}, nil
}

// newRings makes the rings of a Demux or Mux.
func newRings[T any](whose string, n, capacity int) ([]*SPSC[T], error) {
	if n < 1 {
		return nil, fmt.Errorf("ring: %d %s, at least 1 is needed", n, whose)
	}
	rings := make([]*SPSC[T], n)
	for i := range rings {
		var err error
		if rings[i], err = NewSPSC[T](capacity); err != nil {
			return nil, err
		}
	}
	return rings, nil
}

// Consumers returns the number of consumers. Any goroutine.
func (d *Demux[T]) Consumers() int { return len(d.rings) }

// Consumer returns the ring that consumer i fetches from.
func (d *Demux[T]) Consumer(i int) *SPSC[T] { return d.rings[i] }

// Next returns a slot for any consumer, nil when the rings of all are full.
func (d *Demux[T]) Next() *T {
	for range d.rings {
		i := d.next
		if d.next++; d.next == len(d.rings) {
			d.next = 0
		}
		if slot := d.NextTo(i); slot != nil {
			return slot
		}
	}
	return nil
}

// NextTo returns a slot for consumer i, nil when its ring is full.
func (d *Demux[T]) NextTo(i int) *T {
	slot := d.rings[i].Next()
	if slot != nil {
		d.touched[i] = true
	}
	return slot
}

// NextBatch returns up to n slots that lie side by side, all for the next consumer in turn that has any. It returns none
// when all rings are full. See SPSC.NextBatch.
func (d *Demux[T]) NextBatch(n int) []T {
	for range d.rings {
		i := d.next
		if d.next++; d.next == len(d.rings) {
			d.next = 0
		}
		if run := d.rings[i].NextBatch(n); len(run) > 0 {
			d.touched[i] = true
			return run
		}
	}
	return nil
}

// Withdraw takes back all slots that were not published.
func (d *Demux[T]) Withdraw() {
	for i, touched := range d.touched {
		if touched {
			d.touched[i] = false
			d.rings[i].Withdraw()
		}
	}
}

// Publish makes what was filled visible to its consumers.
func (d *Demux[T]) Publish() {
	for i, touched := range d.touched {
		if touched {
			d.touched[i] = false
			d.rings[i].Publish()
		}
	}
}

// Send publishes one message for any consumer and returns for which; false when all rings are full.
func (d *Demux[T]) Send(v T) (consumer int, ok bool) {
	slot := d.Next()
	if slot == nil {
		return 0, false
	}
	*slot = v
	d.Publish()
	return (d.next + len(d.rings) - 1) % len(d.rings), true
}

// Len returns the number of published messages that were not released. Any goroutine.
func (d *Demux[T]) Len() int { return lenOf(d.rings) }

func lenOf[T any](rings []*SPSC[T]) (n int) {
	for _, r := range rings {
		n += r.Len()
	}
	return n
}

// Clear drops everything. Only while nobody uses the rings.
func (d *Demux[T]) Clear() {
	clear(d.touched)
	d.next = 0
	for _, r := range d.rings {
		r.Clear()
	}
}
