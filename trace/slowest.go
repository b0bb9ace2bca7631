package trace

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// slowest keeps the slowest of the requests that have ended lately, in a bounded list.
type slowest struct {
	keep   int
	within time.Duration

	mu     sync.Mutex
	number uint64
	held   []kept
}

type kept struct {
	s     *Summary
	until time.Time
}

// add numbers a request and keeps it if it is slow enough: the fastest of a full list makes room.
func (l *slowest) add(s *Summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	s.Number = l.number
	end := s.Began.Add(s.Took)
	e := kept{s, end.Add(l.within)}
	if len(l.held) == l.keep {
		l.forget(end)
	}
	if len(l.held) < l.keep {
		l.held = append(l.held, e)
		return
	}
	least := 0
	for i := range l.held {
		if l.held[i].s.Took < l.held[least].s.Took {
			least = i
		}
	}
	if l.held[least].s.Took < s.Took {
		l.held[least] = e
	}
}

// forget drops what is no longer recent. l.mu is held.
func (l *slowest) forget(now time.Time) {
	l.held = slices.DeleteFunc(l.held, func(e kept) bool { return !now.Before(e.until) })
}

func (l *slowest) list(now time.Time) []*Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	all := make([]*Summary, len(l.held))
	for i, e := range l.held {
		all[i] = e.s
	}
	slices.SortFunc(all, func(a, b *Summary) int { return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Number, b.Number)) })
	return all
}

func (l *slowest) find(now time.Time, number uint64) *Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	for _, e := range l.held {
		if e.s.Number == number {
			return e.s
		}
	}
	return nil
}
