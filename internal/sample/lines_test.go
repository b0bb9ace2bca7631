package sample

import "testing"

// TestLines: a bounded number of lines passes in an interval, and the first of the next interval says how many did not.
func TestLines(t *testing.T) {
	var s Lines
	now := int64(1e12)
	passed := 0
	for range 1000 {
		if ok, _ := s.Allow(now); ok {
			passed++
		}
	}
	if passed != PerInterval {
		t.Errorf("%d lines in one interval, want %d", passed, PerInterval)
	}
	if ok, held := s.Allow(now + Interval); !ok || held != 1000-PerInterval {
		t.Errorf("next interval: %v, %d held back", ok, held)
	}
}
