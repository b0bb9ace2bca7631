package transport

import (
	"math"
	"testing"
)

// TestClock: a clock tells a beginning from an end, also when the end is as far off as can be.
func TestClock(t *testing.T) {
	for _, at := range []int64{1, 1 << 40, math.MaxInt64} {
		if c := Since(at); c.Since() != at || c.Until() != 0 {
			t.Errorf("since %d: since %d, until %d", at, c.Since(), c.Until())
		}
		if c := Until(at); c.Until() != at || c.Since() != 0 {
			t.Errorf("until %d: since %d, until %d", at, c.Since(), c.Until())
		}
	}
	if c := Clock(0); c.Since() != 0 || c.Until() != 0 {
		t.Error("a clock that does not run says a time")
	}
}
