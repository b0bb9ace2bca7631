package ring_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-eddy/eddy/ring"
)

// The least there is to do: one goroutine sends, one receives.
func ExampleSPSC_minimal() {
	q, err := ring.NewSPSC[string](8)
	if err != nil {
		panic(err)
	}
	q.Send("hello")
	m, ok := q.Recv()
	fmt.Println(m, ok)
	// Output: hello true
}

// Slots are filled in place and published in a batch; the consumer uses them in place and releases them in a batch.
func ExampleSPSC_basics() {
	type order struct{ id, price int }
	q, _ := ring.NewSPSC[order](8)
	for id := range 3 {
		slot := q.Next() // nil when the ring is full
		slot.id, slot.price = id, 100+id
	}
	q.Publish()

	for range q.Available() {
		o := q.Fetch()
		fmt.Println(o.id, o.price)
	}
	q.Release()
	// Output:
	// 0 100
	// 1 101
	// 2 102
}

func ExampleMPSC_minimal() {
	q, _ := ring.NewMPSC[int](8)
	q.Send(1)
	fmt.Println(q.Recv())
	// Output: 1 true
}

// Any number of goroutines send; a Bell wakes the one that receives.
func ExampleMPSC_basics() {
	q, _ := ring.NewMPSC[int](8)
	bell := ring.NewBell()
	for i := range 4 {
		go func() {
			q.Send(i) // false when the ring is full: here it has room for all
			bell.Ring()
		}()
	}
	sum, left := 0, 4
	for left > 0 {
		for m := q.Fetch(); m != nil; m = q.Fetch() {
			sum += *m
			left--
		}
		q.Release()
		if left > 0 {
			bell.Wait(func() bool { return q.Len() > 0 }, nil)
		}
	}
	fmt.Println(sum)
	// Output: 6
}

func ExampleDemux_minimal() {
	d, _ := ring.NewDemux[int](2, 8)
	consumer, _ := d.Send(7)
	fmt.Println(d.Consumer(consumer).Recv())
	// Output: 7 true
}

// Work is dealt out in turn; what belongs together is sent to one consumer.
func ExampleDemux_basics() {
	d, _ := ring.NewDemux[string](2, 8)
	*d.Next() = "first"
	*d.Next() = "second"
	*d.NextTo(1) = "behind second"
	d.Publish()
	for i := range d.Consumers() {
		for c := d.Consumer(i); c.Available() > 0; {
			m, _ := c.Recv()
			fmt.Println(i, m)
		}
	}
	// Output:
	// 0 first
	// 1 second
	// 1 behind second
}

func ExampleMux_minimal() {
	m, _ := ring.NewMux[int](2, 8)
	m.Producer(1).Send(5)
	fmt.Println(*m.Fetch())
	m.Release()
	// Output: 5
}

// Results of several workers come back to one goroutine, round robin.
func ExampleMux_basics() {
	m, _ := ring.NewMux[string](2, 8)
	var wg sync.WaitGroup
	for w, name := range []string{"a", "b"} {
		wg.Go(func() {
			for i := range 2 {
				m.Producer(w).Send(fmt.Sprint(name, i))
			}
		})
	}
	wg.Wait()
	for range m.Available() {
		fmt.Println(*m.Fetch())
	}
	m.Release()
	// Output:
	// a0
	// b0
	// a1
	// b1
}

func ExampleShared_minimal() {
	q, _ := ring.NewShared[int](8)
	q.Send(3)
	fmt.Println(q.Recv())
	// Output: 3 true
}

// The next free consumer takes the next message.
func ExampleShared_basics() {
	q, _ := ring.NewShared[int](8)
	for i := range 8 {
		*q.Next() = i
	}
	q.Publish()
	var mu sync.Mutex
	var wg sync.WaitGroup
	sum := 0
	for range 3 {
		wg.Go(func() {
			for v, ok := q.Recv(); ok; v, ok = q.Recv() {
				mu.Lock()
				sum += v
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Println(sum)
	// Output: 28
}

func ExampleBroadcast_minimal() {
	b, _ := ring.NewBroadcast[int](2, 8)
	b.Send(9)
	fmt.Println(*b.Consumer(0).Fetch(), *b.Consumer(1).Fetch())
	// Output: 9 9
}

// Every consumer sees every message; one that has gone is disabled, so that it holds up nobody.
func ExampleBroadcast_basics() {
	b, _ := ring.NewBroadcast[int](2, 2)
	b.Disable(1)
	for i := range 4 {
		b.Send(i)
		fmt.Println(*b.Consumer(0).Fetch())
		b.Consumer(0).Release()
	}
	// Output:
	// 0
	// 1
	// 2
	// 3
}

// Slots that lie side by side are filled and read as slices, which is the cheapest way for many messages.
func ExampleSPSC_NextBatch() {
	q, _ := ring.NewSPSC[int](8)
	run := q.NextBatch(5) // fewer where the array ends
	for i := range run {
		run[i] = i * i
	}
	q.Publish()

	for run := q.FetchBatch(3); len(run) > 0; run = q.FetchBatch(3) {
		fmt.Println(run)
		q.Release()
	}
	// Output:
	// [0 1 4]
	// [9 16]
}

// A producer that may wait does so in the way of its Waiter; one that may not, such as an event loop, is refused.
func ExampleBlocker() {
	q, _ := ring.NewSPSC[string](1)
	onALoop := func() bool { return false } // group.In() in a program
	wait := ring.Compose(ring.Spin(100), ring.Yield(100), ring.Sleep(time.Millisecond, 0))
	b, _ := ring.NewBlocker(func() bool { return !onALoop() }, wait, time.Minute)

	fmt.Println(ring.SendBlocking(b, q, "first"))
	received := make(chan string)
	go func() {
		m, _ := q.Recv()
		received <- m
	}()
	fmt.Println(ring.SendBlocking(b, q, "second"), "behind", <-received)
	// Output:
	// <nil>
	// <nil> behind first
}
