package buf

import (
	"fmt"
	"testing"
)

// levels runs a benchmark under each level of leak detection; "off" has to cost and allocate what there is without.
func levels(b *testing.B, f func(b *testing.B, l *Leaks)) {
	for level := LeakOff; level < leakLevels; level++ {
		b.Run(level.String(), func(b *testing.B) {
			l, err := NewLeaks(level, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			f(b, l)
		})
	}
}

// BenchmarkSegment is what the engine does for each leftover and each queue of small writes.
func BenchmarkSegment(b *testing.B) {
	levels(b, func(b *testing.B, l *Leaks) {
		p := NewPool(0)
		p.Watch(l)
		for b.Loop() {
			s := p.Get(4096)
			s.Commit(100)
			s.Consume(100)
			p.Put(s)
		}
	})
}

// BenchmarkShared is one counted buffer for two holders.
func BenchmarkShared(b *testing.B) {
	levels(b, func(b *testing.B, l *Leaks) {
		p := NewSharedPool(0, l)
		for b.Loop() {
			s := p.Get(4096)
			s.Retain()
			s.Release()
			s.Release()
		}
	})
}

// BenchmarkJoin compares a composite of header and body with a copy of both.
func BenchmarkJoin(b *testing.B) {
	header := make([]byte, 64)
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		body := make([]byte, size)
		b.Run(fmt.Sprintf("composite/%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var c Composite
				_ = c.Append(header)
				_ = c.Append(body)
				c.Take()
			}
		})
		b.Run(fmt.Sprintf("copy/%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := make([]byte, 0, len(header)+len(body))
				m = append(append(m, header...), body...)
				_ = m[len(m)-1]
			}
		})
	}
}
