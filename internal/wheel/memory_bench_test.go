package wheel

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkMemory reports what an armed entry occupies, with its share of the wheel's own tables.
func BenchmarkMemory(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				w, _, _ := filled(n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(n), "B/entry")
				runtime.KeepAlive(w)
			}
		})
	}
}
