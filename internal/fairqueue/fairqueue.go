// Package fairqueue bounds what waits in several queues together, such as the requests to all hosts of a client. What waits in one queue that does not move
// keeps nobody from waiting in another one.
package fairqueue

import "slices"

// Bound is what queues have in common. The zero value is ready. Its owner's lock guards it and its queues.
type Bound[T comparable] struct {
	n      int
	pushed uint64
	queues []*Queue[T] // that are not empty
}

// Queue is one of the queues of a Bound. The zero value is empty.
type Queue[T comparable] struct {
	items []item[T] // oldest first
	index int       // in Bound.queues, if there are items
}

type item[T comparable] struct {
	v   T
	age uint64 // Bound.pushed when it came
}

// Len returns how many wait in all queues.
func (b *Bound[T]) Len() int { return b.n }

// Push appends v to q. When limit items wait, the latest of the longest queue is refused for it; that is v itself unless another queue is longer than q
// with v. Whoever calls tells what was refused.
func (b *Bound[T]) Push(q *Queue[T], v T, limit int) (refused T, full bool) {
	if full = b.n >= limit; full {
		longest := q
		for _, o := range b.queues {
			if len(o.items) > len(longest.items) {
				longest = o
			}
		}
		if len(longest.items) <= len(q.items)+1 {
			return v, true
		}
		last := len(longest.items) - 1
		refused = longest.items[last].v
		b.delete(longest, last)
	}
	if len(q.items) == 0 {
		q.index = len(b.queues)
		b.queues = append(b.queues, q)
	}
	b.pushed++
	q.items = append(q.items, item[T]{v, b.pushed})
	b.n++
	return refused, full
}

// Pop removes the oldest of q, which is not empty.
func (b *Bound[T]) Pop(q *Queue[T]) { b.delete(q, 0) }

// Remove removes v from q and reports whether it was there.
func (b *Bound[T]) Remove(q *Queue[T], v T) bool {
	i := slices.IndexFunc(q.items, func(i item[T]) bool { return i.v == v })
	if i >= 0 {
		b.delete(q, i)
	}
	return i >= 0
}

// Drain empties q and returns what waited, oldest first.
func (b *Bound[T]) Drain(q *Queue[T]) []T {
	var all []T
	for q.Len() > 0 {
		all = append(all, q.First())
		b.Pop(q)
	}
	return all
}

// delete removes an item. From the front nothing is moved.
func (b *Bound[T]) delete(q *Queue[T], i int) {
	if i == 0 {
		q.items[0] = item[T]{}
		q.items = q.items[1:]
	} else {
		q.items = slices.Delete(q.items, i, i+1)
	}
	b.n--
	if len(q.items) > 0 {
		return
	}
	q.items = nil
	last := len(b.queues) - 1
	b.queues[q.index] = b.queues[last]
	b.queues[q.index].index = q.index
	b.queues[last] = nil
	b.queues = b.queues[:last]
}

// Len returns how many wait in q.
func (q *Queue[T]) Len() int { return len(q.items) }

// First returns the oldest of q, which is not empty.
func (q *Queue[T]) First() T { return q.items[0].v }

// Compare orders queues that are not empty by their oldest items.
func (q *Queue[T]) Compare(o *Queue[T]) int {
	if q.items[0].age < o.items[0].age {
		return -1
	}
	return 1
}
