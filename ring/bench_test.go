package ring

import (
	"runtime"
	"sync"
	"testing"
)

// The benchmarks pass b.N messages between goroutines; the time is per message. Each ring has a buffered channel of the
// same capacity beside it.

const benchCapacity = 1024

func BenchmarkOneToOne(b *testing.B) {
	b.Run("channel", func(b *testing.B) {
		c := make(chan int, benchCapacity)
		go func() {
			for i := range b.N {
				c <- i
			}
		}()
		for range b.N {
			<-c
		}
	})
	for _, batch := range []int{1, 64} {
		b.Run(map[int]string{1: "spsc", 64: "spsc_batch64"}[batch], func(b *testing.B) {
			q := must(NewSPSC[int](benchCapacity))
			go func() {
				for i := 0; i < b.N; {
					for range min(batch, b.N-i) {
						slot := q.Next()
						if slot == nil {
							break
						}
						*slot = i
						i++
					}
					if q.Unpublished() == 0 {
						runtime.Gosched()
						continue
					}
					q.Publish()
				}
			}()
			for got := 0; got < b.N; {
				n := min(batch, q.Available())
				for range n {
					q.Fetch()
				}
				if n == 0 {
					runtime.Gosched()
					continue
				}
				q.Release()
				got += n
			}
		})
	}
}

func BenchmarkManyToOne(b *testing.B) {
	const producers = 4
	share := func(b *testing.B, p int) int { return (b.N + producers - 1 - p) / producers }
	b.Run("channel", func(b *testing.B) {
		c := make(chan int, benchCapacity)
		for p := range producers {
			go func() {
				for i := range share(b, p) {
					c <- i
				}
			}()
		}
		for range b.N {
			<-c
		}
	})
	b.Run("mpsc", func(b *testing.B) {
		q := must(NewMPSC[int](benchCapacity))
		for p := range producers {
			go func() {
				for i := 0; i < share(b, p); {
					if q.Send(i) {
						i++
					} else {
						runtime.Gosched()
					}
				}
			}()
		}
		for got := 0; got < b.N; {
			if q.Fetch() == nil {
				q.Release()
				runtime.Gosched()
				continue
			}
			got++
		}
		q.Release()
	})
	b.Run("mux", func(b *testing.B) {
		m := must(NewMux[int](producers, benchCapacity/producers))
		for p := range producers {
			go func() {
				out := m.Producer(p)
				for i := 0; i < share(b, p); {
					if out.Send(i) {
						i++
					} else {
						runtime.Gosched()
					}
				}
			}()
		}
		for got := 0; got < b.N; {
			if m.Fetch() == nil {
				m.Release()
				runtime.Gosched()
				continue
			}
			got++
		}
		m.Release()
	})
}

// BenchmarkRoundTrip sends messages to two workers and gets them back: through a demultiplexer and a multiplexer in
// batches, and through two channels.
func BenchmarkRoundTrip(b *testing.B) {
	const workers = 2
	b.Run("channels", func(b *testing.B) {
		in, out := make(chan int, benchCapacity), make(chan int, benchCapacity)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for v := range in {
					out <- v
				}
			})
		}
		go func() {
			for i := range b.N {
				in <- i
			}
			close(in)
		}()
		for range b.N {
			<-out
		}
		wg.Wait()
	})
	b.Run("demux_mux", func(b *testing.B) {
		d, m := must(NewDemux[int](workers, benchCapacity)), must(NewMux[int](workers, benchCapacity))
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { benchWorker(d.Consumer(w), m.Producer(w)) })
		}
		for sent, got := 0, 0; got < b.N; {
			for sent < b.N && sent-got < benchCapacity {
				slot := d.Next()
				if slot == nil {
					break
				}
				*slot = sent
				sent++
			}
			d.Publish()
			n := m.Available()
			for range n {
				m.Fetch()
			}
			if got += n; n == 0 {
				runtime.Gosched()
				continue
			}
			m.Release()
		}
		for w := range workers {
			for !d.Consumer(w).Send(-1) {
				runtime.Gosched()
			}
		}
		wg.Wait()
	})
}

// benchWorker passes messages on until a negative one.
func benchWorker(in, out *SPSC[int]) {
	for {
		n := in.Available()
		if n == 0 {
			runtime.Gosched()
			continue
		}
		for range n {
			v := *in.Fetch()
			if v < 0 {
				return
			}
			*out.Next() = v // as large as all that is on its way
		}
		out.Publish()
		in.Release()
	}
}
