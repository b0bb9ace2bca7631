package balance

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPick is a pick with its Begin, End and Observe, by several goroutines: with nothing switched on, and with everything.
func BenchmarkPick(b *testing.B) {
	for p := range policies {
		for _, count := range []int{10, 1000} {
			for what, o := range map[string]Options{
				"plain": {Policy: p},
				"all":   {Policy: p, Zone: "a", Warmup: time.Minute, Eject: Ejection{Trip: Trip{Failures: 5, Ratio: 0.5}, SuccessRate: 1.9}},
			} {
				b.Run(fmt.Sprintf("%v/%d/%s", p, count, what), func(b *testing.B) {
					r, err := New(o)
					if err != nil {
						b.Fatal(err)
					}
					r.Update(servers(count), nil)
					key := Key("key")
					b.ReportAllocs()
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							n := r.Pick(key, nil)
							n.Begin()
							n.End()
							n.Observe(time.Millisecond, Succeeded)
						}
					})
				})
			}
		}
	}
}
