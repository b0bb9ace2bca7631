package meter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Other is the label for what is counted beyond MaxLabels.
const Other = "other"

// MaxLabels bounds the labels of a Labels, because a metric must not grow with the number of strangers.
const MaxLabels = 1000

// Kinds is how many kinds of events Counts tell apart.
const Kinds = 50

// Counts count events by kind, which is below Kinds. The zero value is ready. Any goroutine.
type Counts [Kinds]atomic.Uint64

// Each calls f for every kind that has been counted.
func (n *Counts) Each(f func(kind int, times uint64)) {
	for kind := range n {
		if times := n[kind].Load(); times > 0 {
			f(kind, times)
		}
	}
}

// Labels are Counts by a label, for the first MaxLabels labels. The zero value is ready. Any goroutine; only the first use
// of a label takes a lock.
type Labels[K comparable] struct {
	known sync.Map // K → *Counts
	mu    sync.Mutex
	size  int
	rest  Counts
}

// Of returns the counts of a label. Labels beyond the bound share the rest.
func (t *Labels[K]) Of(label K) *Counts {
	if n, ok := t.known.Load(label); ok {
		return n.(*Counts)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.known.Load(label); ok {
		return n.(*Counts)
	}
	if t.size == MaxLabels {
		return &t.rest
	}
	t.size++
	n := new(Counts)
	t.known.Store(label, n)
	return n
}

// Labelled are the counts of one label.
type Labelled struct {
	Label string
	*Counts
}

// List returns the counts sorted by label. The rest comes last, as Other, if it has counted anything.
func (t *Labels[K]) List() []Labelled {
	var all []Labelled
	t.known.Range(func(k, n any) bool {
		all = append(all, Labelled{fmt.Sprint(k), n.(*Counts)})
		return true
	})
	slices.SortFunc(all, func(a, b Labelled) int { return strings.Compare(a.Label, b.Label) })
	t.rest.Each(func(int, uint64) {
		if len(all) == 0 || all[len(all)-1].Counts != &t.rest {
			all = append(all, Labelled{Other, &t.rest})
		}
	})
	return all
}
