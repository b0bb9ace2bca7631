package executor

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// The submitter retries when it is rejected, so the numbers include the work itself.

func BenchmarkPoolSubmit(b *testing.B) {
	for _, workers := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := newPool(b, Options{Workers: workers})
			b.ReportAllocs()
			for b.Loop() {
				for p.Submit(nothing{}) != nil {
					runtime.Gosched()
				}
			}
		})
	}
}

// One task at a time: submit, wake a worker, wait for it.
func BenchmarkPoolRoundTrip(b *testing.B) {
	p := newPool(b, Options{Workers: 2})
	done := make(chan struct{})
	f := func() { done <- struct{}{} }
	b.ReportAllocs()
	for b.Loop() {
		if err := p.SubmitFunc(f); err != nil {
			b.Fatal(err)
		}
		<-done
	}
}

func BenchmarkStrandSubmit(b *testing.B) {
	for _, strands := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("strands=%d", strands), func(b *testing.B) {
			p := newPool(b, Options{Workers: 2, Queue: 20_000})
			all := make([]*Strand[int], strands)
			for i := range all {
				all[i] = NewStrand(p, 1000, func(int) {})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for all[i%strands].Submit(i) != nil {
					runtime.Gosched()
				}
			}
		})
	}
}

func BenchmarkKeyedSubmit(b *testing.B) {
	for _, keys := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			p := newPool(b, Options{Workers: 2, Queue: 20_000})
			k := NewKeyed[int](p, 1000, 20_000)
			f := func() {}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					for k.Submit(i%keys, f) != nil {
						runtime.Gosched()
					}
				}
			})
		})
	}
}

// BenchmarkRejection is the path under overload.
func BenchmarkRejection(b *testing.B) {
	p := newPool(b, Options{Workers: 1, Queue: 1})
	defer occupy(b, p, 1)()
	if err := p.Submit(nothing{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if p.Submit(nothing{}) == nil {
			b.Fatal("taken")
		}
	}
}

// BenchmarkPoolMemory is a thousand pools that have worked and are idle.
func BenchmarkPoolMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		pools := make([]*Pool, 1000)
		for i := range pools {
			p, err := NewFixed(Options{Workers: 8})
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Submit(nothing{}); err != nil {
				b.Fatal(err)
			}
			pools[i] = p
		}
		for _, p := range pools {
			testkit.Eventually(b, "idle", func() bool { return p.Stats().Completed == 1 })
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/1000, "B/pool")
		for _, p := range pools {
			if _, err := p.Shutdown(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
