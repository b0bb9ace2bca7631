//go:build unix

package poll

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

func TestMilliseconds(t *testing.T) {
	for _, c := range []struct {
		in   time.Duration
		want int
	}{
		{-1, -1},
		{-time.Hour, -1},
		{0, 0},
		{1, 1},
		{999 * time.Microsecond, 1},
		{time.Millisecond, 1},
		{time.Millisecond + 1, 2},
		{10*time.Millisecond + 5*time.Microsecond, 11},
		{1<<63 - 1, 1<<31 - 1},
	} {
		if got := milliseconds(c.in); got != c.want {
			t.Errorf("milliseconds(%d) = %d, want %d", c.in, got, c.want)
		}
	}
}

// TestTimeout: a wait ends at its deadline, neither before, which would make a
// loop spin until the deadline has come, nor a second later.
func TestTimeout(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		events := make([]sys.Event, 4)
		for _, timeout := range []time.Duration{
			30 * time.Millisecond, time.Millisecond, 200 * time.Microsecond, 1, 7 * time.Millisecond,
		} {
			start := time.Now()
			waits := 0
			for left := timeout; left > 0; left = timeout - time.Since(start) {
				n, err := p.Wait(events, left)
				if n != 0 || err != nil {
					t.Fatalf("Wait(%v) = %d, %v", timeout, n, err)
				}
				waits++
			}
			if waits > 10 { // one may be cut short by an earlier deadline, some by signals
				t.Errorf("it took %d waits to wait for %v", waits, timeout)
			}
			if took := time.Since(start); took > timeout+patience/2 {
				t.Errorf("Wait(%v) took %v", timeout, took)
			}
		}
	})
}

func TestZeroTimeoutDoesNotWait(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, _ := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		start := time.Now()
		for range 1000 {
			if len(ready(t, p)) != 0 {
				t.Fatal("an event out of nothing")
			}
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("1000 waits without waiting took %v", took)
		}
	})
}

// TestNoTimeoutWaitsForever: with nothing scheduled the loop is not woken at
// all, except once by a deadline that an earlier wait has left behind.
func TestNoTimeoutWaitsForever(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		write(t, b, 1)
		if n, err := p.Wait(make([]sys.Event, 4), 20*time.Millisecond); n != 1 || err != nil {
			t.Fatalf("Wait = %d, %v", n, err)
		}
		drain(t, a)
		var stop atomic.Bool
		returns := 0
		l := startWaiter(p, func() bool { returns++; return stop.Load() })
		time.Sleep(100 * time.Millisecond) // the time in which nothing may happen
		stop.Store(true)
		must(t, p.Wake())
		l.join(t)
		if returns > 5 { // of Wake, of the deadline left behind, of a signal
			t.Errorf("%d returns of Wait in 100 ms without events", returns)
		}
	})
}

// TestEarlierTimeout: a wait with an earlier deadline than the one before it.
func TestEarlierTimeout(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		events := make([]sys.Event, 4)
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		write(t, b, 1)
		if n, err := p.Wait(events, time.Hour); n != 1 || err != nil {
			t.Fatalf("Wait = %d, %v", n, err)
		}
		drain(t, a)
		start := time.Now()
		if n, err := p.Wait(events, 10*time.Millisecond); n != 0 || err != nil {
			t.Fatalf("Wait = %d, %v", n, err)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("Wait(10ms) after Wait(1h) took %v", took)
		}
		longest := make(chan error, 1)
		go func() {
			_, err := p.Wait(events, 1<<63-1) // beyond any clock
			longest <- err
		}()
		must(t, p.Wake())
		select {
		case err := <-longest:
			must(t, err)
		case <-time.After(patience):
			t.Fatal("Wake did not end the longest Wait")
		}
	})
}

func TestWakeBeforeWait(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		for range 100 {
			for range 3 {
				must(t, p.Wake())
			}
			start := time.Now()
			if n, err := p.Wait(make([]sys.Event, 4), patience); n != 0 || err != nil {
				t.Fatalf("Wait = %d, %v", n, err)
			}
			if took := time.Since(start); took > patience/2 {
				t.Fatalf("a woken Wait took %v", took)
			}
		}
	})
}

// TestWakesDoNotStack: what one Wait has answered does not disturb the next.
func TestWakesDoNotStack(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		events := make([]sys.Event, 4)
		for range 1000 {
			must(t, p.Wake())
		}
		_, err := p.Wait(events, patience)
		must(t, err)
		const pause = 20 * time.Millisecond
		start := time.Now()
		waits := 0
		for ; time.Since(start) < pause; waits++ {
			_, err := p.Wait(events, pause-time.Since(start))
			must(t, err)
		}
		if waits > 10 {
			t.Errorf("%d waits in %v after answered wakes", waits, pause)
		}
	})
}

func TestWakeKeepsEvents(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		for range 100 {
			write(t, b, 1)
			must(t, p.Wake())
			expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
			drain(t, a)
		}
	})
}

func TestEventWhileWaiting(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		events := make([]sys.Event, 4)
		for range 200 {
			written := make(chan error, 1)
			go func() {
				_, err := unix.Write(b, []byte{1})
				written <- err
			}()
			n, err := p.Wait(events, patience)
			must(t, <-written)
			if n != 1 || err != nil || events[0] != (sys.Event{Token: 7, Ready: sys.Readable}) {
				t.Fatalf("Wait = %d, %v, %+v", n, err, events[0])
			}
			drain(t, a)
		}
	})
}

// TestCloseDuringWakes: a Wake that comes late does no harm. It must not, for
// one, write to a descriptor that is somebody else's by now.
func TestCloseDuringWakes(t *testing.T) {
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				for range 50 {
					p := open(t, name, mode)
					done := make(chan struct{})
					go func() {
						defer close(done)
						for p.Wake() == nil {
							runtime.Gosched()
						}
					}()
					for range 20 {
						_, err := p.Wait(make([]sys.Event, 1), time.Millisecond)
						must(t, err)
					}
					must(t, p.Close())
					select {
					case <-done:
					case <-time.After(patience):
						t.Fatal("Wake goes on after Close")
					}
				}
			})
		}
	}
}

// waiter is a goroutine that waits in a poller until told to stop.
type waiter struct{ done chan struct{} }

// startWaiter calls woken after each return of Wait and ends when it is true.
func startWaiter(p sys.Poller, woken func() bool) waiter {
	w := waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		events := make([]sys.Event, 4)
		for {
			if _, err := p.Wait(events, -1); err != nil || woken() {
				return
			}
		}
	}()
	return w
}

func (w waiter) join(tb testing.TB) {
	tb.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		tb.Fatal("the waiter did not end: a wake-up is lost")
	}
}

// TestWakeIsNeverLost hands numbers to a waiting goroutine, at all moments of
// its wait and under all kinds of timeout. BenchmarkHandoff does the same for as
// long as wanted.
func TestWakeIsNeverLost(t *testing.T) {
	const count = 20_000
	for _, published := range []bool{false, true} {
		t.Run(fmt.Sprintf("published=%v", published), func(t *testing.T) {
			everyPoller(t, func(t *testing.T, p sys.Poller) { handOff(t, p, count, published) })
		})
	}
}

func BenchmarkHandoff(b *testing.B) {
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			b.Run(name+"/"+mode.String(), func(b *testing.B) { handOff(b, open(b, name, mode), b.N, true) })
		}
	}
}

// handOff fails when a number is not taken although Wake followed it. With
// published, the producer wakes only a loop that has published that it sleeps.
func handOff(tb testing.TB, p sys.Poller, count int, published bool) {
	var posted, taken atomic.Int64
	var asleep atomic.Bool
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		events := make([]sys.Event, 4)
		timeouts := []time.Duration{-1, -1, -1, time.Hour, time.Minute, time.Hour}
		for i := 0; !stop.Load(); i++ {
			taken.Store(posted.Load())
			asleep.Store(true)
			timeout := timeouts[i%len(timeouts)]
			if i%64 == 0 {
				timeout = time.Duration(i%5) * 10 * time.Microsecond
			}
			if published && posted.Load() != taken.Load() {
				timeout = 0
			}
			if _, err := p.Wait(events, timeout); err != nil {
				tb.Error(err)
				return
			}
			asleep.Store(false)
		}
	}()
	defer func() {
		stop.Store(true)
		for end := time.Now().Add(patience); ; {
			p.Wake()
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				if time.Now().After(end) {
					tb.Error("the loop cannot be woken any more")
					return
				}
			}
		}
	}()
	random := rand.New(rand.NewPCG(1, 2))
	for i := int64(1); i <= int64(count); i++ {
		posted.Store(i)
		if !published || asleep.Load() {
			if err := p.Wake(); err != nil {
				tb.Fatal(err)
			}
		}
		limit := time.Time{}
		for spins := 0; taken.Load() < i; spins++ {
			runtime.Gosched()
			if spins%1024 != 1023 {
				continue
			}
			if limit.IsZero() {
				limit = time.Now().Add(patience)
			} else if time.Now().After(limit) {
				tb.Fatalf("wake-up %d of %d is lost", i, count)
			}
		}
		for range random.IntN(200) { // shift the next hand-off against the wait
			_ = asleep.Load()
		}
	}
}
