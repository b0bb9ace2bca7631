package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

var sizes = []int{1_000, 100_000, 1_000_000}

// filled arms n entries over the next minute, as idle deadlines are.
func filled(n int) (*Wheel, []Handle, *rand.Rand) {
	r := rand.New(rand.NewPCG(1, 2))
	w := New(10*time.Millisecond, 0)
	handles := make([]Handle, n)
	for i := range handles {
		handles[i] = w.Schedule(r.Int64N(60_000*ms), uint64(i))
	}
	return w, handles, r
}

func BenchmarkMove(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w, handles, r := filled(n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.Move(handles[i*7919%n], r.Int64N(60_000*ms))
			}
		})
	}
}

func BenchmarkScheduleCancel(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w, _, r := filled(n)
			b.ReportAllocs()
			for b.Loop() {
				w.Cancel(w.Schedule(r.Int64N(60_000*ms), 1))
			}
		})
	}
}

// BenchmarkTick is one Advance by a tick in which nothing expires, the cost that must
// not depend on the number armed.
func BenchmarkTick(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w := New(10*time.Millisecond, 0)
			for i := range n {
				w.Schedule(int64(i)*ms+1<<60, 0)
			}
			now := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				now += 10 * ms
				if w.Advance(now, 1<<30, func(Handle, uint64) { b.Fatal("fired") }) != 0 {
					b.Fatal("fired")
				}
			}
		})
	}
}

// BenchmarkExpire is the whole life of an entry in a full wheel: fire, cascades on the
// way there, and arming it again. The time is per entry.
func BenchmarkExpire(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w, _, r := filled(n)
			now := int64(0)
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; {
				now += 10 * ms
				left -= w.Advance(now, left, func(_ Handle, p uint64) {
					w.Schedule(now+r.Int64N(60_000*ms), p)
				})
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	w, _, _ := filled(100_000)
	for b.Loop() {
		w.Next()
	}
}

func TestMemoryPerEntry(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := New(10*time.Millisecond, 0)
	const n = 1_000_000
	for i := range n {
		w.Schedule(int64(i)*ms, uint64(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes each", each)
	if each > 32 {
		t.Errorf("%.1f bytes for each of %d entries, want at most 32", each, n)
	}
	runtime.KeepAlive(w)
}
