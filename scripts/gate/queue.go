package main

import (
	"slices"
	"sync"
)

// queue has the programs that can run, the longest first. While it is filled only half as many run as otherwise, because compilers do beside them.
type queue struct {
	mu      sync.Mutex
	cond    sync.Cond
	list    []program
	beside  int // that may run at once
	running int
	full    bool // nothing is added any more
}

func newQueue(beside int) *queue {
	q := &queue{beside: beside}
	q.cond.L = &q.mu
	return q
}

// add adds programs.
func (q *queue) add(list ...program) {
	q.change(func() {
		q.list = append(q.list, list...)
		slices.SortStableFunc(q.list, func(a, b program) int { return rank(a) - rank(b) })
	})
}

// drop forgets the programs that have not begun.
func (q *queue) drop() { q.change(func() { q.list = nil }) }

// filled says that nothing is added any more.
func (q *queue) filled() { q.change(func() { q.full = true }) }

// ended says that a program that next has returned has ended.
func (q *queue) ended() { q.change(func() { q.running-- }) }

func (q *queue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.cond.Broadcast()
}

// next waits for the next program, and reports whether there is one.
func (q *queue) next() (program, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		may := q.beside
		if !q.full {
			may = (may + 1) / 2
		}
		switch {
		case len(q.list) > 0 && q.running < may:
			p := q.list[0]
			q.list = q.list[1:]
			q.running++
			return p, true
		case len(q.list) == 0 && q.full:
			return program{}, false
		}
		q.cond.Wait()
	}
}
