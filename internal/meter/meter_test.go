package meter

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestPublishedNumbers: what a loop counts is visible after Publish, and a gauge at once.
func TestPublishedNumbers(t *testing.T) {
	var n Counters
	var p Published
	n[BytesIn], n[Faults] = 7, 1
	if p.Count(BytesIn) != 0 {
		t.Error("a number is visible before it was published")
	}
	p.Publish(&n)
	n[BytesIn] += 5
	p.Publish(&n)
	if p.Count(BytesIn) != 12 || p.Count(Faults) != 1 || p.Count(BytesOut) != 0 {
		t.Errorf("published %d, %d and %d, want 12, 1 and 0", p.Count(BytesIn), p.Count(Faults), p.Count(BytesOut))
	}
	p.Set(Active, 3)
	p.Add(HeldIn, 10)
	p.Add(HeldIn, -4)
	if p.Value(Active) != 3 || p.Value(HeldIn) != 6 || p.Value(Deadlines) != 0 {
		t.Errorf("gauges %d, %d and %d, want 3, 6 and 0", p.Value(Active), p.Value(HeldIn), p.Value(Deadlines))
	}
}

// TestLabelsAreBounded: the first labels are told apart, whoever asks for them, and the others count together, last in the list.
func TestLabelsAreBounded(t *testing.T) {
	var labels Labels[int]
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range MaxLabels {
				labels.Of(i)[2].Add(1)
			}
		})
	}
	all.Wait()
	if n := len(labels.List()); n != MaxLabels {
		t.Errorf("%d labels, want %d and no rest", n, MaxLabels)
	}
	for i := range 5 {
		labels.Of(MaxLabels + i)[0].Add(1)
		labels.Of(MaxLabels + i)[3].Add(1)
	}
	list := labels.List()
	if last := list[len(list)-1]; len(list) != MaxLabels+1 || last.Label != Other || last.Counts[0].Load() != 5 {
		t.Fatalf("%d labels, the last %q with %d", len(list), last.Label, last.Counts[0].Load())
	}
	got := map[int]uint64{}
	list[0].Each(func(kind int, times uint64) { got[kind] = times })
	if fmt.Sprint(got) != "map[2:4]" || list[0].Label != "0" {
		t.Errorf("label %q counted %v, want 4 of kind 2", list[0].Label, got)
	}
}

// TestRecent: the last entries are there, the latest first, with their ages; nil keeps nothing.
func TestRecent(t *testing.T) {
	r := NewRecent[string](3)
	for i, s := range []string{"a", "b", "c", "d", "e"} {
		r.Add(int64(i), s)
	}
	var got []string
	r.Each(10, func(s string, age time.Duration) { got = append(got, fmt.Sprint(s, int64(age))) })
	if !slices.Equal(got, []string{"e6", "d7", "c8"}) {
		t.Errorf("kept %q", got)
	}
	NewRecent[string](0).Each(0, func(string, time.Duration) { t.Error("nothing was kept") })
}
