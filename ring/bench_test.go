package ring

import (
	"fmt"
	"sync"
	"testing"
)

// The benchmarks pass b.N messages between goroutines; the time is per message. Each ring has a buffered channel of the
// same capacity beside it. A ring that passes batches has a channel of batches beside it.
//
// A goroutine with nothing to do sleeps, as it does at a channel. (Waiting by Gosched or by spinning gives the same figures
// on processors of one's own, and ten times larger ones where other programs want them, too.)

const (
	benchCapacity = 1024
	benchBatch    = 64
)

// doors are the bells of a ring: the consumer sleeps at one until there is something, each producer at one until half of
// its ring is free, so that nobody is woken for a single message.
type doors struct {
	something *Bell
	room      []*Bell
}

func newDoors(producers int) *doors {
	d := &doors{something: NewBell()}
	for range producers {
		d.room = append(d.room, NewBell())
	}
	return d
}

func (d *doors) awaitSomething(length func() int) {
	d.something.Wait(func() bool { return length() > 0 }, nil)
}

func (d *doors) awaitRoom(producer, capacity int, length func() int) {
	d.room[producer].Wait(func() bool { return length() <= capacity/2 }, nil)
}

func (d *doors) released(capacity, length int) {
	if length <= capacity/2 {
		for _, b := range d.room {
			b.Ring()
		}
	}
}

func check(b *testing.B, got, want int) {
	if got != want {
		b.Fatalf("got %d, want %d", got, want)
	}
}

// fill puts the numbers from i on into a run of slots and returns the next one.
func fill(run []int, i int) int {
	for k := range run {
		run[k] = i
		i++
	}
	return i
}

func BenchmarkOneToOne(b *testing.B) {
	b.Run("channel", func(b *testing.B) {
		b.ReportAllocs()
		c := make(chan int, benchCapacity)
		go func() {
			for i := range b.N {
				c <- i
			}
		}()
		for i := range b.N {
			check(b, <-c, i)
		}
	})
	b.Run("channel_of_batches", func(b *testing.B) {
		b.ReportAllocs()
		c := make(chan [benchBatch]int, benchCapacity/benchBatch)
		go func() {
			for i := 0; i < b.N; {
				var batch [benchBatch]int
				i = fill(batch[:], i)
				c <- batch
			}
		}()
		for i := 0; i < b.N; {
			for _, v := range <-c {
				check(b, v, i)
				i++
			}
		}
	})
	b.Run("spsc", func(b *testing.B) { oneToOne(b, 1) })
	b.Run("spsc_batch", func(b *testing.B) { oneToOne(b, benchBatch) })
}

func oneToOne(b *testing.B, batch int) {
	b.ReportAllocs()
	q, doors := must(NewSPSC[int](benchCapacity)), newDoors(1)
	go func() {
		for i := 0; i < b.N; {
			run := q.NextBatch(min(batch, b.N-i))
			if len(run) == 0 {
				doors.awaitRoom(0, benchCapacity, q.Len)
				continue
			}
			i = fill(run, i)
			q.Publish()
			doors.something.Ring()
		}
	}()
	for i := 0; i < b.N; {
		run := q.FetchBatch(batch)
		if len(run) == 0 {
			doors.awaitSomething(q.Available)
			continue
		}
		for _, v := range run {
			check(b, v, i)
			i++
		}
		q.Release()
		doors.released(benchCapacity, q.Len())
	}
}

const benchProducers = 4

func BenchmarkManyToOne(b *testing.B) {
	b.Run("channel", func(b *testing.B) {
		b.ReportAllocs()
		c := make(chan int, benchCapacity)
		for p := range benchProducers {
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
	b.Run("mpsc", func(b *testing.B) { manyToMPSC(b, 1) })
	b.Run("mpsc_batch", func(b *testing.B) { manyToMPSC(b, benchBatch) })
	b.Run("mux", func(b *testing.B) { manyToMux(b, 1) })
	b.Run("mux_batch", func(b *testing.B) { manyToMux(b, benchBatch) })
}

// share is how many of b.N messages producer p sends.
func share(b *testing.B, p int) int { return (b.N + benchProducers - 1 - p) / benchProducers }

func manyToMPSC(b *testing.B, most int) {
	b.ReportAllocs()
	q, doors := must(NewMPSC[int](benchCapacity)), newDoors(benchProducers)
	for p := range benchProducers {
		go func() {
			batch := make([]int, most)
			for i, n := 0, share(b, p); i < n; {
				if !q.SendBatch(batch[:min(most, n-i)]) {
					doors.awaitRoom(p, benchCapacity, q.Len)
					continue
				}
				i += min(most, n-i)
				doors.something.Ring()
			}
		}()
	}
	for got := 0; got < b.N; {
		n := 0
		for n < most && q.Fetch() != nil {
			n++
		}
		q.Release()
		if got += n; n == 0 && got < b.N {
			doors.awaitSomething(q.Len)
		}
		doors.released(benchCapacity, q.Len())
	}
}

func manyToMux(b *testing.B, batch int) {
	b.ReportAllocs()
	m, doors := must(NewMux[int](benchProducers, benchCapacity/benchProducers)), newDoors(benchProducers)
	for p := range benchProducers {
		go func() {
			out := m.Producer(p)
			for i, n := 0, share(b, p); i < n; {
				run := out.NextBatch(min(batch, n-i))
				if len(run) == 0 {
					doors.awaitRoom(p, out.Cap(), out.Len)
					continue
				}
				i = fill(run, i)
				out.Publish()
				doors.something.Ring()
			}
		}()
	}
	for got := 0; got < b.N; {
		n := len(m.FetchBatch(batch))
		if got += n; n == 0 {
			doors.awaitSomething(m.Len)
			continue
		}
		m.Release()
		doors.released(benchCapacity, m.Len())
	}
}

// BenchmarkRoundTrip sends messages to workers and gets them back, with at most benchCapacity on their way. With
// "channels" one goroutine sends and receives, as a loop with rings does; with "channels_both_sides" each has its own.
func BenchmarkRoundTrip(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d/channels", workers), func(b *testing.B) { channelTrips(b, workers, false) })
		b.Run(fmt.Sprintf("workers=%d/channels_both_sides", workers), func(b *testing.B) { channelTrips(b, workers, true) })
		b.Run(fmt.Sprintf("workers=%d/demux_mux_single", workers), func(b *testing.B) { ringTrips(b, workers, 1) })
		b.Run(fmt.Sprintf("workers=%d/demux_mux", workers), func(b *testing.B) { ringTrips(b, workers, benchBatch) })
	}
}

func channelTrips(b *testing.B, workers int, sender bool) {
	b.ReportAllocs()
	in, out := make(chan int, benchCapacity), make(chan int, benchCapacity)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for v := range in {
				out <- v
			}
		})
	}
	if sender {
		go func() {
			for i := range b.N {
				in <- i
			}
		}()
		for range b.N {
			<-out
		}
	} else {
		for sent, got := 0, 0; got < b.N; {
			for sent < b.N && sent-got < benchCapacity {
				in <- sent // has room
				sent++
			}
			<-out
			for got++; len(out) > 0; got++ {
				<-out
			}
		}
	}
	close(in)
	wg.Wait()
}

// ringTrips is the same with a demultiplexer and a multiplexer, and as many messages published at once as batch says.
func ringTrips(b *testing.B, workers, batch int) {
	b.ReportAllocs()
	d, m := must(NewDemux[int](workers, benchCapacity)), must(NewMux[int](workers, benchCapacity))
	work, results := make([]*Bell, workers), NewBell()
	var wg sync.WaitGroup
	for w := range workers {
		work[w] = NewBell()
		wg.Go(func() { benchWorker(d.Consumer(w), m.Producer(w), work[w], results, batch) })
	}
	for sent, got := 0, 0; got < b.N; {
		for sent < b.N && sent-got < benchCapacity {
			sent = fill(d.NextBatch(min(batch, b.N-sent, benchCapacity-(sent-got))), sent)
			d.Publish()
			for _, bell := range work {
				bell.Ring()
			}
		}
		n := 0
		for run := m.FetchBatch(batch); len(run) > 0; run = m.FetchBatch(batch) {
			n += len(run)
			m.Release()
		}
		if got += n; n == 0 {
			results.Wait(func() bool { return m.Available() > 0 }, nil)
		}
	}
	for w := range workers {
		d.Consumer(w).Send(-1)
		work[w].Ring()
	}
	wg.Wait()
}

// benchWorker passes messages on until a negative one.
func benchWorker(in, out *SPSC[int], work, results *Bell, batch int) {
	for {
		run := in.FetchBatch(batch)
		if len(run) == 0 {
			work.Wait(func() bool { return in.Available() > 0 }, nil)
			continue
		}
		if run[len(run)-1] < 0 {
			return
		}
		for left := run; len(left) > 0; {
			left = left[copy(out.NextBatch(len(left)), left):] // has room for all that is on its way, but its array may end
		}
		out.Publish()
		in.Release()
		results.Ring()
	}
}
