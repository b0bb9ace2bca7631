package ring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCapacities(t *testing.T) {
	for _, c := range []int{-1, 3, 6, 1000, 1<<30 + 1, 1 << 31} {
		_, err1 := NewSPSC[int](c)
		_, err2 := NewMPSC[int](c)
		_, err3 := NewShared[int](c)
		_, err4 := NewBroadcast[int](1, c)
		_, err5 := NewDemux[int](1, c)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("capacity ", c, " is not a power of two")) {
				t.Errorf("capacity %d: %v", c, err)
			}
		}
	}
	for _, n := range []int{0, -2} {
		_, err1 := NewDemux[int](n, 8)
		_, err2 := NewMux[int](n, 8)
		_, err3 := NewBroadcast[int](n, 8)
		if err1 == nil || err2 == nil || err3 == nil {
			t.Errorf("%d participants are taken: %v, %v, %v", n, err1, err2, err3)
		}
	}
	if q := must(NewSPSC[int](0)); q.Cap() != 1024 {
		t.Errorf("the default capacity is %d", q.Cap())
	}
	if q := must(NewSPSC[int](1)); !q.Send(1) || q.Send(2) {
		t.Error("a ring of one slot does not hold one message")
	}
}

// TestBatches: what is filled is seen after Publish and not before; slots come back with Release and not before; what was
// fetched can be had again.
func TestBatches(t *testing.T) {
	q := must(NewSPSC[int](4))
	for lap := range 3 {
		for i := range 4 {
			*q.Next() = 10*lap + i
		}
		if q.Next() != nil || q.Available() != 0 || q.Fetch() != nil || q.Unpublished() != 4 {
			t.Fatalf("lap %d: seen before Publish", lap)
		}
		q.Withdraw()
		for i := range 4 {
			*q.Next() = 10*lap + i
		}
		q.Publish()
		if q.Available() != 4 || q.Len() != 4 || *q.Peek() != 10*lap {
			t.Fatalf("lap %d: %d available, %d long", lap, q.Available(), q.Len())
		}
		for i := range 4 {
			if v := *q.Fetch(); v != 10*lap+i {
				t.Fatalf("lap %d: fetched %d at %d", lap, v, i)
			}
		}
		if q.Fetch() != nil || q.Next() != nil || q.Unreleased() != 4 {
			t.Fatalf("lap %d: slots are free before Release", lap)
		}
		if err := q.RollBack(5); !errors.Is(err, ErrRollBack) {
			t.Fatalf("RollBack(5) = %v", err)
		}
		if err := q.RollBack(3); err != nil || *q.Fetch() != 10*lap+1 {
			t.Fatalf("lap %d: RollBack(3) = %v", lap, err)
		}
		q.Release() // two
		if q.Len() != 2 || q.Next() == nil || q.Next() == nil || q.Next() != nil {
			t.Fatalf("lap %d: two were released, %d are left", lap, q.Len())
		}
		q.Clear()
		if q.Len() != 0 || q.Fetch() != nil || q.Unpublished() != 0 {
			t.Fatalf("lap %d: Clear left %d", lap, q.Len())
		}
	}
}

// TestRecvKeepsNothingAlive: a message that was received is not held by its slot.
func TestRecvKeepsNothingAlive(t *testing.T) {
	spsc, mpsc, shared := must(NewSPSC[*int](2)), must(NewMPSC[*int](2)), must(NewShared[*int](2))
	for name, ring := range map[string]struct {
		send func(*int) bool
		recv func() (*int, bool)
		slot func() *int
	}{
		"SPSC":   {spsc.Send, spsc.Recv, func() *int { return spsc.slots[0] }},
		"MPSC":   {mpsc.Send, mpsc.Recv, func() *int { return mpsc.slots[0].v }},
		"Shared": {shared.Send, shared.Recv, func() *int { return shared.slots[0].v }},
	} {
		if _, ok := ring.recv(); ok || !ring.send(new(int)) || ring.slot() == nil {
			t.Errorf("%s: empty ring received or full ring sent", name)
		}
		if v, ok := ring.recv(); !ok || v == nil || ring.slot() != nil {
			t.Errorf("%s: received %v, %v; the slot keeps %v", name, v, ok, ring.slot())
		}
	}
}

// flow sends n numbers through a ring between two goroutines that work in batches of random sizes.
const flow = 200_000

func TestSPSCUnderLoad(t *testing.T) {
	q := must(NewSPSC[int](64))
	go func() {
		r := rand.New(rand.NewPCG(1, 1))
		for i := 0; i < flow; {
			for range 1 + r.IntN(90) {
				if i == flow {
					break
				}
				slot := q.Next()
				if slot == nil {
					break
				}
				*slot = i
				i++
			}
			q.Publish()
			runtime.Gosched()
		}
	}()
	r := rand.New(rand.NewPCG(2, 2))
	for want := 0; want < flow; {
		n := min(q.Available(), 1+r.IntN(90))
		for range n {
			if v := *q.Fetch(); v != want {
				t.Fatalf("got %d, want %d", v, want)
			}
			want++
		}
		if back := r.IntN(n + 1); r.IntN(8) == 0 {
			if err := q.RollBack(back); err != nil {
				t.Fatal(err)
			}
			want -= back
		}
		q.Release()
		if n == 0 {
			runtime.Gosched()
		}
	}
}

func TestMPSCUnderLoad(t *testing.T) {
	const producers = 4
	q := must(NewMPSC[[2]int](64))
	for p := range producers {
		go func() {
			for i := 0; i < flow/producers; {
				switch {
				case i%7 == 0 && i+3 <= flow/producers:
					if q.SendBatch([][2]int{{p, i}, {p, i + 1}, {p, i + 2}}) {
						i += 3
						continue
					}
				case q.Send([2]int{p, i}):
					i++
					continue
				}
				runtime.Gosched()
			}
		}()
	}
	var next [producers]int
	for got := 0; got < flow/producers*producers; {
		m := q.Fetch()
		if m == nil {
			q.Release()
			runtime.Gosched()
			continue
		}
		if m[1] != next[m[0]] {
			t.Fatalf("producer %d: got %d, want %d", m[0], m[1], next[m[0]])
		}
		next[m[0]]++
		got++
		if got%5 == 0 {
			q.Release()
		}
	}
	q.Release()
	if q.Len() != 0 || q.Fetch() != nil {
		t.Errorf("%d left", q.Len())
	}
	if q.SendBatch(make([][2]int, 65)) {
		t.Error("a batch longer than the ring was taken")
	}
}

// TestSharedUnderLoad: every message is handled once.
func TestSharedUnderLoad(t *testing.T) {
	q := must(NewShared[int](64))
	seen := make([][]int, 4)
	var wg sync.WaitGroup
	for c := range seen {
		wg.Go(func() {
			var batch [5]int
			for {
				vs := batch[:]
				if c%2 == 0 {
					if v, ok := q.Recv(); ok {
						batch[0], vs = v, batch[:1]
					} else {
						vs = nil
					}
				} else {
					vs = vs[:q.RecvBatch(vs)]
				}
				for _, v := range vs {
					if v < 0 {
						return
					}
					seen[c] = append(seen[c], v)
				}
				if len(vs) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	put := func(v int) {
		for !q.Send(v) {
			runtime.Gosched()
		}
	}
	for i := range flow {
		put(i)
	}
	for q.Len() > 0 {
		runtime.Gosched()
	}
	for range seen { // one each; a consumer that takes several in a batch leaves the others waiting, so keep offering
		put(-1)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
		default:
			q.Send(-1)
			runtime.Gosched()
			continue
		}
		break
	}
	all := make([]bool, flow)
	for c, vs := range seen {
		last := -1
		for _, v := range vs {
			if all[v] || v <= last {
				t.Fatalf("consumer %d: %d again or out of order", c, v)
			}
			all[v], last = true, v
		}
	}
	for v, ok := range all {
		if !ok {
			t.Fatalf("%d was lost", v)
		}
	}
}

// TestDemux: messages go in turn, past full rings, or to the named consumer, and each goes once.
func TestDemux(t *testing.T) {
	d := must(NewDemux[int](3, 2))
	for i := range 3 {
		*d.Next() = i
	}
	*d.NextTo(1) = 11
	if d.NextTo(1) != nil || d.Len() != 0 {
		t.Error("ring 1 takes a third message, or shows one before Publish")
	}
	*d.Next() = 3 // for 0
	*d.Next() = 4 // 1 is full: for 2
	if d.Next() != nil {
		t.Error("all rings are full")
	}
	d.Publish()
	if _, ok := d.Send(99); ok || d.Len() != 6 || d.Consumers() != 3 {
		t.Errorf("Send = %v, Len %d", ok, d.Len())
	}
	for i, want := range [][]int{{0, 3}, {1, 11}, {2, 4}} {
		for _, w := range want {
			if v, ok := d.Consumer(i).Recv(); !ok || v != w {
				t.Errorf("consumer %d got %d, %v, want %d", i, v, ok, w)
			}
		}
	}
	if c, ok := d.Send(7); !ok || d.Consumer(c).Len() != 1 {
		t.Errorf("Send = %d, %v", c, ok)
	}
	d.Clear()
	if d.Len() != 0 {
		t.Error("Clear left something")
	}
}

// TestMux: the consumer goes round the producers, whose order stays; a snapshot is not longer than it was.
func TestMux(t *testing.T) {
	m := must(NewMux[string](3, 4))
	for p, words := range [][]string{{"a1", "a2", "a3"}, {}, {"c1"}} {
		for _, w := range words {
			m.Producer(p).Send(w)
		}
	}
	if m.Available() != 4 || m.Len() != 4 || m.Producers() != 3 {
		t.Errorf("%d available", m.Available())
	}
	m.Producer(1).Send("b1") // after the snapshot
	var got []string
	for range 4 {
		got = append(got, *m.Fetch())
	}
	m.Release()
	got = append(got, *m.Fetch())
	if fmt.Sprint(got) != "[a1 c1 a2 a3 b1]" || m.Fetch() != nil || m.Len() != 1 {
		t.Errorf("fetched %v, %d unreleased", got, m.Len())
	}
	m.Release()
	for _, w := range []string{"a4", "a5"} {
		m.Producer(0).Send(w)
		m.Producer(2).Send("c" + w[1:])
	}
	first := []string{*m.Fetch(), *m.Fetch(), *m.Fetch()}
	m.RollBack()
	again := []string{*m.Fetch(), *m.Fetch(), *m.Fetch()}
	if fmt.Sprint(first) != fmt.Sprint(again) || m.Len() != 4 {
		t.Errorf("fetched %v, and %v after RollBack; %d left", first, again, m.Len())
	}
	m.Producer(0).Send("gone")
	m.Clear()
	if m.Len() != 0 || m.Fetch() != nil {
		t.Error("Clear left something")
	}
}

// TestRoundTrip: demux to workers and mux back, under load: everything once, and in order for each worker.
func TestRoundTrip(t *testing.T) {
	const workers = 3
	d, m := must(NewDemux[int](workers, 32)), must(NewMux[int](workers, 32))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			in, out := d.Consumer(w), m.Producer(w)
			for {
				slot := in.Fetch()
				if slot == nil {
					select {
					case <-stop:
						return
					default:
						runtime.Gosched()
						continue
					}
				}
				var to *int
				for to = out.Next(); to == nil; to = out.Next() {
					out.Publish()
					runtime.Gosched()
				}
				*to = *slot
				out.Publish()
				in.Release()
			}
		})
	}
	seen := make([]bool, flow/4)
	for sent, got := 0, 0; got < len(seen); {
		for sent < len(seen) {
			slot := d.Next()
			if slot == nil {
				break
			}
			*slot = sent
			sent++
		}
		d.Publish()
		for v := m.Fetch(); v != nil; v = m.Fetch() {
			if seen[*v] {
				t.Fatalf("%d came back twice", *v)
			}
			seen[*v] = true
			got++
		}
		m.Release()
		runtime.Gosched()
	}
	close(stop)
	wg.Wait()
}

// TestBroadcast: every consumer sees everything in order; the slowest one limits the producer until it is disabled.
func TestBroadcast(t *testing.T) {
	b := must(NewBroadcast[int](2, 2))
	fast, slow := b.Consumer(0), b.Consumer(1)
	if !b.Send(1) || !b.Send(2) || b.Send(3) {
		t.Fatal("two slots do not take two")
	}
	if *fast.Fetch() != 1 || *fast.Fetch() != 2 || fast.Fetch() != nil || fast.RollBack(3) == nil || fast.RollBack(1) != nil || *fast.Fetch() != 2 {
		t.Error("the first consumer sees something else")
	}
	fast.Release()
	if b.Send(3) {
		t.Error("the slow consumer was overrun")
	}
	if slow.Available() != 2 || *slow.Fetch() != 1 {
		t.Error("the second consumer sees something else")
	}
	slow.Release()
	if !b.Send(3) || b.Send(4) {
		t.Error("one slot was released, not one sent")
	}
	b.Disable(1)
	if slow.Release(); slow.Available() != 0 || slow.RollBack(1) == nil {
		t.Error("a disabled consumer sees messages")
	}
	if *fast.Fetch() != 3 {
		t.Error("the first consumer missed one")
	}
	fast.Release()
	if !b.Send(4) || !b.Send(5) || b.Send(6) {
		t.Error("the remaining consumer does not set the limit")
	}
	b.Disable(0)
	for i := range 9 {
		if !b.Send(i) {
			t.Fatal("without consumers there is no limit")
		}
	}
}

func TestBroadcastUnderLoad(t *testing.T) {
	b := must(NewBroadcast[int](3, 64))
	var wg sync.WaitGroup
	for c := range 3 {
		wg.Go(func() {
			r := b.Consumer(c)
			for want := 0; want < flow/4; {
				v := r.Fetch()
				if v == nil {
					r.Release()
					runtime.Gosched()
					continue
				}
				if *v != want {
					t.Errorf("consumer %d got %d, want %d", c, *v, want)
					b.Disable(c)
					return
				}
				want++
			}
			r.Release()
		})
	}
	for i := range flow / 4 {
		for !b.Send(i) {
			runtime.Gosched()
		}
	}
	wg.Wait()
}

// TestNothingIsAllocated: passing a message costs no memory in any ring.
func TestNothingIsAllocated(t *testing.T) {
	spsc, mpsc, shared := must(NewSPSC[[4]int](8)), must(NewMPSC[[4]int](8)), must(NewShared[[4]int](8))
	demux, mux, broadcast := must(NewDemux[[4]int](2, 8)), must(NewMux[[4]int](2, 8)), must(NewBroadcast[[4]int](1, 8))
	var v [4]int
	if n := testing.AllocsPerRun(100, func() {
		spsc.Send(v)
		spsc.Recv()
		mpsc.Send(v)
		mpsc.Recv()
		shared.Send(v)
		shared.Recv()
		c, _ := demux.Send(v)
		demux.Consumer(c).Recv()
		mux.Producer(1).Send(v)
		mux.Fetch()
		mux.Release()
		broadcast.Send(v)
		broadcast.Consumer(0).Fetch()
		broadcast.Consumer(0).Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWaiters: budgets end when they should, the composite goes from one to the next and back at Reset.
func TestWaiters(t *testing.T) {
	count := func(w Waiter) (n int) {
		for n = 1; !w.Wait(); n++ {
			if n == 1000 {
				return -1
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		w    Waiter
		want int
	}{
		"spin 5": {Spin(5), 5}, "spin": {Spin(0), -1}, "yield 3": {Yield(3), 3}, "sleep 2": {Sleep(time.Microsecond, 2), 2},
		"composed": {Compose(Spin(4), Yield(3), Spin(2)), 9},
	} {
		if n := count(c.w); n != c.want {
			t.Errorf("%s: %d waits, want %d", name, n, c.want)
		}
		c.w.Reset()
		if n := count(c.w); n != c.want {
			t.Errorf("%s after Reset: %d waits, want %d", name, n, c.want)
		}
	}
	b := BackOff(time.Microsecond, time.Microsecond, 3*time.Microsecond).(*backOff)
	var pauses []time.Duration
	for range 4 {
		pauses = append(pauses, b.next)
		b.Wait()
	}
	if b.Reset(); fmt.Sprint(pauses) != "[1µs 2µs 3µs 3µs]" || b.next != time.Microsecond {
		t.Errorf("pauses %v, then %v", pauses, b.next)
	}
}

// TestBell: a consumer that sleeps is woken by the first message, one that is awake costs its producer nothing, none is
// missed, and stop ends the wait.
func TestBell(t *testing.T) {
	q, bell, stop := must(NewSPSC[int](16)), NewBell(), make(chan struct{})
	got := make(chan int, 1)
	go func() {
		defer close(got)
		sum := 0
		for {
			for v := q.Fetch(); v != nil; v = q.Fetch() {
				sum += *v
			}
			q.Release()
			if sum == flow {
				got <- sum
				sum = 0
			}
			if !bell.Wait(func() bool { return q.Available() > 0 }, stop) {
				return
			}
		}
	}()
	for i := range flow {
		for !q.Send(1) {
			runtime.Gosched()
		}
		bell.Ring()
		if i%1000 == 0 {
			runtime.Gosched()
		}
	}
	if testkit.Receive(t, "the last ring", got) != flow {
		t.Error("the consumer stopped")
	}
	close(stop)
	if _, open := <-got; open {
		t.Error("the consumer did not stop")
	}
	for range 100 { // nobody listens: nothing is left over for the next sleeper
		bell.Ring()
	}
	if len(bell.wake) != 0 {
		t.Error("a ring was kept for nobody")
	}
}

// TestBellKeepsNoRing: a ring that comes while the consumer looks a last time is used up by that look, whichever way the
// wait ends, so that the next ring finds room and the next sleep is not cut short.
func TestBellKeepsNoRing(t *testing.T) {
	bell, open, closed := NewBell(), make(chan struct{}), make(chan struct{})
	close(closed)
	for n := range 100 {
		for _, found := range []bool{true, false} {
			stop := open
			if !found {
				stop = closed // the end and the ring are there at once: either may be taken
			}
			if !bell.Wait(func() bool { bell.Ring(); return found }, stop) && found {
				t.Fatalf("round %d: stopped", n)
			}
			if len(bell.wake) != 0 || bell.asleep.Load() {
				t.Fatalf("round %d: found %v: %d rings are left, asleep %v", n, found, len(bell.wake), bell.asleep.Load())
			}
		}
	}
}

// TestMPSCIsFullOnlyWhenFull: a producer for whom there is room is never told that there is none, however far the others
// and the consumer come between its looks at the two numbers. For a batch without messages there is always room.
func TestMPSCIsFullOnlyWhenFull(t *testing.T) {
	q := must(NewMPSC[int](4))
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; !over.Load(); n++ {
			if !q.SendBatch(nil) {
				t.Errorf("batch %d: full", n)
				return
			}
		}
	})
	for range flow { // the other producer, and the consumer: a turn of the ring takes a moment
		q.Send(1)
		q.Fetch()
		q.Release()
	}
	over.Store(true)
	wg.Wait()
}
