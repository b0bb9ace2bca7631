// Package list is a list whose members hold their own places, so that joining and leaving it allocate nothing.
package list

import "iter"

// Place is the place of a member in a List. It is a field of the member, and zero while the member is in no list.
type Place[T any] struct {
	next, prev *Place[T]
	of         *T
}

// Taken reports whether the member is in a list.
func (p *Place[T]) Taken() bool { return p.of != nil }

// Next returns the member behind, nil for none.
func (p *Place[T]) Next() *T { return p.next.member() }

func (p *Place[T]) member() *T {
	if p == nil {
		return nil
	}
	return p.of
}

// List keeps its members in the order of Push. The zero value is empty.
type List[T any] struct{ first, last *Place[T] }

// First returns the member that has been in the list for longest, nil for none.
func (l *List[T]) First() *T { return l.first.member() }

// Len counts the members, one by one.
func (l *List[T]) Len() (n int) {
	for range l.All() {
		n++
	}
	return n
}

// Push appends m, of which p is the field. A member of a list stays where it is.
func (l *List[T]) Push(p *Place[T], m *T) {
	if p.of != nil {
		return
	}
	p.of, p.prev = m, l.last
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

// Remove takes the member out whose field p is, and reports whether it was in the list. p must not be in another list.
func (l *List[T]) Remove(p *Place[T]) bool {
	if p.of == nil {
		return false
	}
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	*p = Place[T]{}
	return true
}

// All yields the members in order. The loop may remove the member that it is given.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for p := l.first; p != nil; {
			next := p.next
			if !yield(p.of) {
				return
			}
			p = next
		}
	}
}
