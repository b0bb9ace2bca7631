package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// lanesWindow is how many works are on their way at most.
const lanesWindow = 1024

// BenchmarkLanesRoundTrip sends work to the workers of one lane and collects the results on the goroutine that submits, as
// a loop does, beside the same through two buffered channels. The time is per work.
func BenchmarkLanesRoundTrip(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("workers=%d/channels", workers), func(b *testing.B) { channelTrips(b, workers) })
		b.Run(fmt.Sprintf("workers=%d/lanes", workers), func(b *testing.B) { laneTrips(b, workers) })
	}
}

func channelTrips(b *testing.B, workers int) {
	b.ReportAllocs()
	in, out := make(chan job, lanesWindow), make(chan answer, lanesWindow)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range in {
				out <- answer{id: j.id}
			}
		})
	}
	for sent, got := 0, 0; got < b.N; {
		for sent < b.N && sent-got < lanesWindow {
			in <- job{id: sent} // has room
			sent++
		}
		<-out
		for got++; len(out) > 0; got++ {
			<-out
		}
	}
	close(in)
	wg.Wait()
}

func laneTrips(b *testing.B, workers int) {
	b.ReportAllocs()
	woken := make(chan struct{}, 1)
	l, err := NewLanes(LanesOptions[job, answer]{
		Lanes: []Lane{{Workers: workers, Capacity: lanesWindow}},
		Run:   func(_ int, in *job, out *answer) { out.id = in.id },
		Wake:  func() error { woken <- struct{}{}; return nil },
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	collect := func(*answer) {}
	for sent, got := 0, 0; got < b.N; {
		for sent < b.N && sent-got < lanesWindow {
			if err := l.Submit(0, job{id: sent}); errors.Is(err, ErrRejected) {
				break // one worker's ring is full while others are behind
			} else if err != nil {
				b.Fatal(err)
			}
			sent++
		}
		<-woken
		got += l.Collect(0, collect)
	}
	l.Stop(context.Background())
}
