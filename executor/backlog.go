package executor

import (
	"time"

	"github.com/go-eddy/eddy/limit"
)

// backlog holds the runners that no worker has taken: in the order of submission, and in an adaptive pool Sheddables by their class. Under the pool's lock.
type backlog struct {
	plain fifo[Runner]
	ranks *ranks // nil = everything is in plain
}

// ranks hold the Sheddables of an adaptive pool.
type ranks struct {
	waiting [limit.Classes]fifo[waits] // by Class.Rank, in the order of submission
	n       int
	since   time.Time // since when there has always been one
}

// waits is a Sheddable that waits.
type waits struct {
	r    Sheddable
	from time.Time
}

func (b *backlog) len() int {
	if b.ranks != nil {
		return b.plain.len() + b.ranks.n
	}
	return b.plain.len()
}

// pop takes the runner that is next: the oldest one of the highest class. Those without a class come right after CriticalPlus, because they cannot be refused.
func (b *backlog) pop() (Runner, bool) {
	if b.ranks == nil {
		return b.plain.pop()
	}
	return b.popRanked(false)
}

// popRanked is pop of an adaptive pool. With newest it takes the newest of the class.
func (b *backlog) popRanked(newest bool) (Runner, bool) {
	for rank := limit.Classes - 1; rank >= 0; rank-- {
		if rank == limit.CriticalPlus.Rank()-1 {
			if r, ok := b.plain.pop(); ok {
				return r, true
			}
		}
		if w, ok := b.ranks.take(rank, newest); ok {
			return w.r, true
		}
	}
	return nil, false
}

func (k *ranks) push(r Sheddable, now time.Time) {
	if k.n == 0 {
		k.since = now
	}
	k.n++
	k.waiting[r.Class().Rank()].push(waits{r, now})
}

func (k *ranks) take(rank int, newest bool) (w waits, ok bool) {
	if q := &k.waiting[rank]; newest {
		w, ok = q.popLast()
	} else {
		w, ok = q.pop()
	}
	if ok {
		k.n--
	}
	return w, ok
}

// lowest returns the lowest rank of which something waits, limit.Classes if nothing does.
func (k *ranks) lowest() int {
	for rank := range k.waiting {
		if k.waiting[rank].len() > 0 {
			return rank
		}
	}
	return limit.Classes
}
