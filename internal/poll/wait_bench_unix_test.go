//go:build unix

package poll

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// everyPollerBench runs a benchmark on each backend of this platform in each mode.
func everyPollerBench(b *testing.B, bench func(b *testing.B, p sys.Poller)) {
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			b.Run(name+"/"+mode.String(), func(b *testing.B) { bench(b, open(b, name, mode)) })
		}
	}
}

// BenchmarkWait is one Wait with a number of 500 descriptors ready, without
// waiting and with a timeout that is not needed.
func BenchmarkWait(b *testing.B) {
	for _, readyCount := range []int{0, 1, 64} {
		for _, timeout := range []time.Duration{0, time.Second} {
			if readyCount == 0 && timeout != 0 {
				continue
			}
			b.Run(fmt.Sprintf("ready=%d/timeout=%v", readyCount, timeout), func(b *testing.B) {
				everyPollerBench(b, func(b *testing.B, p sys.Poller) {
					for i := range 500 {
						in, out := pair(b)
						must(b, p.Add(in, sys.Read, uint64(i)))
						if i < readyCount {
							write(b, out, 1)
						}
					}
					events := make([]sys.Event, 128)
					b.ReportAllocs()
					for b.Loop() {
						n, err := p.Wait(events, timeout)
						if n != readyCount || err != nil {
							b.Fatal(n, err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkTimeout is a Wait that nothing but its timeout of 1 ns ends.
func BenchmarkTimeout(b *testing.B) {
	everyPollerBench(b, func(b *testing.B, p sys.Poller) {
		events := make([]sys.Event, 128)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Wait(events, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRegister is what a connection costs the poller between open and
// close, and what pausing and resuming it costs.
func BenchmarkRegister(b *testing.B) {
	b.Run("add+remove", func(b *testing.B) {
		everyPollerBench(b, func(b *testing.B, p sys.Poller) {
			fd, _ := pair(b)
			b.ReportAllocs()
			for b.Loop() {
				must(b, p.Add(fd, sys.Read, 1))
				must(b, p.Remove(fd))
			}
		})
	})
	b.Run("pause+resume", func(b *testing.B) {
		everyPollerBench(b, func(b *testing.B, p sys.Poller) {
			fd, _ := pair(b)
			must(b, p.Add(fd, sys.Read, 1))
			b.ReportAllocs()
			for b.Loop() {
				must(b, p.Modify(fd, sys.None, 1))
				must(b, p.Modify(fd, sys.Read, 1))
			}
		})
	})
}
