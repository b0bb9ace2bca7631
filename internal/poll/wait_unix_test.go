//go:build unix

package poll

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/poll/polltest"
)

func TestMilliseconds(t *testing.T) {
	for _, c := range []struct {
		in   time.Duration
		want int
	}{
		{-1, -1},
		{-time.Hour, -1},
		{0, 0},
		{1, 1},
		{999 * time.Microsecond, 1},
		{time.Millisecond, 1},
		{time.Millisecond + 1, 2},
		{10*time.Millisecond + 5*time.Microsecond, 11},
		{1<<63 - 1, 1<<31 - 1},
	} {
		if got := milliseconds(c.in); got != c.want {
			t.Errorf("milliseconds(%d) = %d, want %d", c.in, got, c.want)
		}
	}
}

func BenchmarkHandoff(b *testing.B) {
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			b.Run(name+"/"+mode.String(), func(b *testing.B) { polltest.HandOff(b, open(b, name, mode), b.N, true) })
		}
	}
}
