package sample

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSeldom: the first line passes, then one in an interval, which says how many were held back.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Seldom
		for i, want := range []struct {
			ok   bool
			held uint64
			wait time.Duration
		}{
			{true, 0, 0}, {false, 0, 0}, {false, 0, time.Hour - 1}, {false, 0, 1}, {true, 3, time.Hour}, {true, 0, 0},
		} {
			if ok, held := l.Allow(time.Hour); ok != want.ok || held != want.held {
				t.Errorf("line %d: %v with %d held back, want %v with %d", i, ok, held, want.ok, want.held)
			}
			time.Sleep(want.wait)
		}
	})
}
