package store

import (
	"testing"
	"time"
)

// TestLatencyBounds: what takes exactly a bound is within it, and the counts of the bounds include those of the smaller ones.
func TestLatencyBounds(t *testing.T) {
	want := []time.Duration{1e6, 25e5, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 25e8, 5e9, 10e9}
	if len(want) != LatencyBounds {
		t.Fatalf("%d bounds", LatencyBounds)
	}
	var l Latencies
	var sum time.Duration
	for i, b := range want {
		if got := LatencyBound(i); got != b {
			t.Errorf("bound %d is %v, want %v", i, got, b)
		}
		l.Add(b)
		sum += b
	}
	l.Add(10*time.Second + 1)
	s := l.Load()
	for i, n := range s.Upto {
		if n != uint64(i+1) {
			t.Errorf("%d commands within %v, want %d", n, LatencyBound(i), i+1)
		}
	}
	if s.Count != uint64(len(want)+1) || s.Sum != sum+10*time.Second+1 {
		t.Errorf("%+v", s)
	}
}
