package polltest

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// waiting tests how long Wait takes and what Wake does to it.
var waiting = map[string]func(*stage){
	"timeout":             timeout,
	"zero timeout":        zeroTimeout,
	"no timeout":          noTimeout,
	"earlier timeout":     earlierTimeout,
	"wake before Wait":    wakeBeforeWait,
	"wakes do not stack":  wakesDoNotStack,
	"wake keeps events":   wakeKeepsEvents,
	"event while waiting": eventWhileWaiting,
	"close during wakes":  closeDuringWakes,
	"no wake is lost":     func(s *stage) { HandOff(s, s.p, 5_000, false) },
	"no due wake is lost": func(s *stage) { HandOff(s, s.p, 5_000, true) },
}

// timeout: a wait ends at its deadline, neither before, which would make a
// loop spin until the deadline has come, nor a second later.
func timeout(s *stage) {
	events := make([]sys.Event, 4)
	for _, timeout := range []time.Duration{
		30 * time.Millisecond, time.Millisecond, 200 * time.Microsecond, 1, 7 * time.Millisecond,
	} {
		start := time.Now()
		waits := 0
		for left := timeout; left > 0; left = timeout - time.Since(start) {
			n, err := s.p.Wait(events, left)
			if n != 0 || err != nil {
				s.Fatalf("Wait(%v) = %d, %v", timeout, n, err)
			}
			waits++
		}
		if waits > 10 { // one may be cut short by an earlier deadline, some by signals
			s.Errorf("it took %d waits to wait for %v", waits, timeout)
		}
		if took := time.Since(start); took > timeout+patience/2 {
			s.Errorf("Wait(%v) took %v", timeout, took)
		}
	}
}

func zeroTimeout(s *stage) {
	a, _ := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	start := time.Now()
	for range 1000 {
		if len(s.ready()) != 0 {
			s.Fatal("an event out of nothing")
		}
	}
	if took := time.Since(start); took > patience/2 {
		s.Errorf("1000 waits without waiting took %v", took)
	}
}

// noTimeout: with nothing scheduled the loop is not woken at
// all, except once by a deadline that an earlier wait has left behind.
func noTimeout(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	s.write(b, 1)
	if n, err := s.p.Wait(make([]sys.Event, 4), 20*time.Millisecond); n != 1 || err != nil {
		s.Fatalf("Wait = %d, %v", n, err)
	}
	s.drain(a, 1)
	var stop atomic.Bool
	returns := 0
	w := s.startWaiter(func() bool { returns++; return stop.Load() })
	time.Sleep(100 * time.Millisecond) // the time in which nothing may happen
	stop.Store(true)
	s.must(s.p.Wake())
	w.join()
	if returns > 5 { // of Wake, of the deadline left behind, of a signal
		s.Errorf("%d returns of Wait in 100 ms without events", returns)
	}
}

// earlierTimeout: a wait with an earlier deadline than the one before it.
func earlierTimeout(s *stage) {
	events := make([]sys.Event, 4)
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 1))
	s.write(b, 1)
	if n, err := s.p.Wait(events, time.Hour); n != 1 || err != nil {
		s.Fatalf("Wait = %d, %v", n, err)
	}
	s.drain(a, 1)
	start := time.Now()
	if n, err := s.p.Wait(events, 10*time.Millisecond); n != 0 || err != nil {
		s.Fatalf("Wait = %d, %v", n, err)
	}
	if took := time.Since(start); took > patience/2 {
		s.Errorf("Wait(10ms) after Wait(1h) took %v", took)
	}
	longest := make(chan error, 1)
	go func() {
		_, err := s.p.Wait(events, 1<<63-1) // beyond any clock
		longest <- err
	}()
	s.must(s.p.Wake())
	select {
	case err := <-longest:
		s.must(err)
	case <-time.After(patience):
		s.Fatal("Wake did not end the longest Wait")
	}
}

func wakeBeforeWait(s *stage) {
	for range 100 {
		for range 3 {
			s.must(s.p.Wake())
		}
		start := time.Now()
		if n, err := s.p.Wait(make([]sys.Event, 4), patience); n != 0 || err != nil {
			s.Fatalf("Wait = %d, %v", n, err)
		}
		if took := time.Since(start); took > patience/2 {
			s.Fatalf("a woken Wait took %v", took)
		}
	}
}

// wakesDoNotStack: what one Wait has answered does not disturb the next.
func wakesDoNotStack(s *stage) {
	events := make([]sys.Event, 4)
	for range 1000 {
		s.must(s.p.Wake())
	}
	_, err := s.p.Wait(events, patience)
	s.must(err)
	const pause = 20 * time.Millisecond
	start := time.Now()
	waits := 0
	for ; time.Since(start) < pause; waits++ {
		_, err := s.p.Wait(events, pause-time.Since(start))
		s.must(err)
	}
	if waits > 10 {
		s.Errorf("%d waits in %v after answered wakes", waits, pause)
	}
}

func wakeKeepsEvents(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 7))
	for range 100 {
		s.write(b, 1)
		s.must(s.p.Wake())
		s.expect(7, sys.Readable)
		s.drain(a, 1)
	}
}

func eventWhileWaiting(s *stage) {
	a, b := s.pair()
	s.must(s.p.Add(a, sys.Read, 7))
	for range 200 {
		written := make(chan error, 1)
		go func() {
			_, err := s.k.Sockets().Write(b, []byte{1})
			written <- err
		}()
		s.expect(7, sys.Readable)
		s.must(<-written)
		s.drain(a, 1)
	}
}

// closeDuringWakes: a Wake that comes late does no harm. For one, it must not
// write to a descriptor that has a new owner by now.
func closeDuringWakes(s *stage) {
	for range 50 {
		p := s.poller()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for p.Wake() == nil {
				runtime.Gosched()
			}
		}()
		for range 20 {
			_, err := p.Wait(make([]sys.Event, 1), time.Millisecond)
			s.must(err)
		}
		s.must(p.Close())
		select {
		case <-done:
		case <-time.After(patience):
			s.Fatal("Wake goes on after Close")
		}
	}
}

// waiter is a goroutine that waits in a poller until told to stop.
type waiter struct {
	s    *stage
	done chan struct{}
}

// startWaiter calls woken after each return of Wait and ends when woken returns
// true.
func (s *stage) startWaiter(woken func() bool) waiter {
	w := waiter{s: s, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		events := make([]sys.Event, 4)
		for {
			if _, err := s.p.Wait(events, -1); err != nil || woken() {
				return
			}
		}
	}()
	return w
}

func (w waiter) join() {
	w.s.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		w.s.Fatal("the waiter did not end: a wake-up is lost")
	}
}

// HandOff hands numbers to a goroutine that waits in p, at all moments of its
// wait and with all kinds of timeout. It fails when a number is not taken
// although Wake followed it. With published, the producer wakes the loop only
// while that has published that it sleeps.
func HandOff(tb testing.TB, p sys.Poller, count int, published bool) {
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
