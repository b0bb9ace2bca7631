package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/simhook"
)

// Parked ones are bounded together and by owner: what would begin beyond that is refused, what was taken before is told.
func TestPlaceIsCrowded(t *testing.T) {
	openInn(t, Options{Name: "web", Workers: 2, Queue: 20, Parked: 12}, func(n *inn) {
		come := make(chan struct{})
		refused := func(owner any, what string, key bool) {
			t.Helper()
			synctest.Wait()
			before := n.p.Stats()
			var limit *LimitError
			if err := n.submit(owner, func(*Place) { t.Error("it was begun") }); !errors.As(err, &limit) || !errors.Is(err, ErrRejected) || limit.Key != key || !strings.Contains(err.Error(), what) {
				t.Errorf("%v: %v", owner, err)
			}
			if s := n.p.Stats(); s.Crowded != before.Crowded+1 || s.Rejected != before.Rejected+1 {
				t.Errorf("%+v", s)
			}
		}
		park := func(owner any, times int) {
			t.Helper()
			for range times {
				synctest.Wait()
				n.parks(owner, "x", come)
			}
		}
		park("a", 3)
		refused("a", `pool "web": an owner's share of the parked runners is at its limit of 3`, true)
		park("b", 3) // of 9 left
		refused("a", "share", true)
		refused("b", "share", true)
		park("c", 2) // of 6
		refused("c", "share", true)
		if err := n.p.SubmitFunc(func() { n.say("plain") }); err != nil {
			t.Error(err)
		}
		n.expect("plain", 0, 0, 8)
		gate := make(chan struct{})
		for range 2 {
			n.must("d", func(*Place) { <-gate })
		}
		n.expect("plain", 2, 0, 8)
		for range 4 { // all are taken while the share has room; the last finds none when it begins
			n.must("d", func(pl *Place) {
				if pl.Crowded() {
					n.say("crowded")
					return
				}
				pl.Leave()
				<-come
				pl.Return()
			})
		}
		close(gate)
		n.expect("plain crowded crowded crowded", 0, 0, 9)
		park(nil, 3) // nobody's have no share
		refused(nil, `pool "web": the number of parked runners is at its limit of 12`, false)
		refused("e", "number", false)
		if s := n.p.Stats(); s.Exhausted != 2 || s.Parked != s.MaxParked {
			t.Errorf("%+v", s)
		}
		close(come)
		n.expect("plain crowded crowded crowded"+strings.Repeat(" x", 11), 0, 0, 0)
		n.must("a", func(pl *Place) { n.say(fmt.Sprint(pl.Crowded())) })
		n.expect("plain crowded crowded crowded"+strings.Repeat(" x", 11)+" false", 0, 0, 0)
	})
}

// The bound is passed by those that run when it is reached, at most: they need not be cut.
func TestPlaceBound(t *testing.T) {
	openInn(t, Options{Workers: 4, Queue: 100, Parked: 8}, func(n *inn) {
		come, gate := make(chan struct{}), make(chan struct{})
		begun, refused := 0, 0
		for range 50 {
			n.must(nil, func(pl *Place) {
				n.mu.Lock()
				if pl.Crowded() {
					refused++
					n.mu.Unlock()
					return
				}
				begun++
				n.mu.Unlock()
				<-gate
				pl.Leave()
				<-come
				pl.Return()
			})
		}
		n.expect("", 4, 46, 0)
		close(gate)
		synctest.Wait()
		if s := n.p.Stats(); begun+refused != 50 || s.Parked != begun || begun < 8 || begun > 8+3 {
			t.Errorf("%d begun, %d refused, %+v", begun, refused, s)
		}
		close(come)
	})
}

// Shutdown waits for parked ones; a stopped pool lets those that return go on at once.
func TestPlaceShutdown(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10}, func(n *inn) {
		come, later, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
		for range 3 {
			n.parks("a", "parked", come)
		}
		n.parks("b", "later", later)
		n.expect("", 0, 0, 4)
		n.must(nil, func(*Place) { <-gate; n.say("last") })
		ctx, cancel := context.WithCancel(n.t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := n.p.Shutdown(ctx)
			ended <- err
		}()
		n.expect("", 1, 0, 4)
		close(come)
		n.expect("", 1, 0, 4)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 parked") {
			t.Error(err)
		}
		n.expect("parked parked parked", 1, 0, 1)
		close(gate)
		n.expect("parked parked parked last", 0, 0, 1)
		go func() {
			_, err := n.p.Shutdown(n.t.Context())
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it has ended with one that is parked: %v", err)
		default:
		}
		close(later)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A place that is left is room, for a submission that waits and for an owner in the line.
func TestPlaceMakesRoom(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: HandOff, Policy: Block(time.Hour, anyone)}, func(n *inn) {
		leave, come := make(chan struct{}), make(chan struct{})
		n.must(nil, func(pl *Place) {
			<-leave
			pl.Leave()
			<-come
			pl.Return()
			n.say("parked")
		})
		n.expect("", 1, 0, 0)
		room := NewRoom(func() { n.say("room") })
		n.p.AwaitRoom(room)
		n.expect("", 1, 0, 0)
		close(leave)
		n.expect("room", 0, 0, 1)
		gate := make(chan struct{})
		n.must(nil, func(*Place) { <-gate })
		n.expect("room", 1, 0, 1)
		close(come)
		n.expect("room", 1, 0, 1)
		go n.says("waited")
		n.expect("room", 1, 0, 1)
		close(gate)
		n.expect("room parked waited", 0, 0, 0)
		leave, come = make(chan struct{}), make(chan struct{})
		n.must(nil, func(pl *Place) {
			<-leave
			pl.Leave()
			<-come
			pl.Return()
			n.say("again")
		})
		synctest.Wait()
		go n.says("admitted")
		synctest.Wait()
		close(leave)
		n.expect("room parked waited admitted", 0, 0, 1)
		close(come)
		n.expect("room parked waited admitted again", 0, 0, 0)
	})
}

// The place of a worker that is idle is free.
func TestPlaceOfAnIdleWorker(t *testing.T) {
	openInn(t, Options{Workers: 2, Core: 2, Queue: 10}, func(n *inn) {
		come, hold := make(chan struct{}), make(chan struct{})
		n.must(nil, func(pl *Place) {
			pl.Leave()
			<-come
			pl.Return()
			<-hold
		})
		n.expect("", 0, 0, 1)
		gate := make(chan struct{})
		for range 2 {
			n.must(nil, func(*Place) { <-gate })
		}
		n.expect("", 2, 0, 1)
		close(gate)
		n.expect("", 0, 0, 1)
		close(come)
		n.expect("", 1, 0, 0)
		if s := n.p.Stats(); s.Workers != 2 {
			t.Errorf("%+v", s)
		}
		n.says("beside it")
		n.expect("beside it", 1, 0, 0)
		close(hold)
	})
}

// A larger pool has places for those that return.
func TestPlaceResize(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10}, func(n *inn) {
		come, gate := make(chan struct{}), make(chan struct{})
		for range 3 {
			n.parks(nil, "parked", come)
		}
		n.expect("", 0, 0, 3)
		n.must(nil, func(*Place) { <-gate; n.say("busy") })
		n.expect("", 1, 0, 3)
		close(come)
		n.expect("", 1, 0, 3)
		if err := n.p.Resize(2, 0); err != nil {
			t.Fatal(err)
		}
		n.expect("parked parked parked", 1, 0, 0)
		close(gate)
	})
}

// A runner without a worker of the pool has no place to give, and in a pool that parks nobody it keeps its own.
func TestPlaceIsKept(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: HandOff, Policy: CallerRuns(func() bool { return true })}, func(n *inn) {
		gate := make(chan struct{})
		n.must(nil, func(*Place) { <-gate })
		n.expect("", 1, 0, 0)
		n.must(nil, func(pl *Place) {
			pl.Leave()
			n.numbers(1, 0, 0)
			pl.Return()
			n.say("caller")
		})
		n.expect("caller", 1, 0, 0)
		close(gate)
	})
	openInn(t, Options{Workers: 1, Queue: 10, Parked: NoParking}, func(n *inn) {
		gate := make(chan struct{})
		n.must(nil, func(pl *Place) {
			pl.Quit()
			pl.Leave()
			<-gate
			pl.Return()
			n.say(fmt.Sprint(pl.Crowded()))
		})
		n.must(nil, func(*Place) { n.say("queued") })
		n.expect("", 1, 1, 0)
		close(gate)
		n.expect("false queued", 0, 0, 0)
		if s := n.p.Stats(); s.Left != 0 || s.MaxParked != 0 {
			t.Errorf("%+v", s)
		}
	})
	if _, err := NewFixed(Options{Parked: -2}); err == nil || !strings.Contains(err.Error(), "Options.Parked is -2") {
		t.Error(err)
	}
}

// machine runs workers as a simulated machine does, but on goroutines. It counts their waits.
type machine struct{ waits *atomic.Int64 }

func (machine) Go(_ string, f func()) { go f() }
func (machine) Pause()                {}
func (m machine) Await(a, b <-chan struct{}) bool {
	m.waits.Add(1)
	select {
	case <-a:
		return true
	case <-b:
		return false
	}
}

var _ simhook.Workers = machine{}

// On a simulated machine a place is lent and taken again as elsewhere, without a clock.
func TestPlaceSimulated(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10}, func(n *inn) {
		var waits atomic.Int64
		simulate(n.p, machine{&waits})
		come, gate := make(chan struct{}), make(chan struct{})
		n.parks(nil, "parked", come)
		n.expect("", 0, 0, 1)
		n.must(nil, func(*Place) { <-gate; n.say("first") })
		n.must(nil, func(*Place) { n.say("second") })
		n.expect("", 1, 1, 1)
		close(come)
		n.expect("", 1, 1, 1)
		close(gate)
		n.expect("first parked second", 0, 0, 0)
		if waits.Load() != 1 {
			t.Errorf("%d waits", waits.Load())
		}
	})
}

// Under load every place that was left is taken again, and never do more work than there are workers.
func TestPlaceUnderLoad(t *testing.T) {
	openInn(t, Options{Workers: 4, Queue: 1000, Core: 2, Parked: 1000}, func(n *inn) {
		const guests, waits = 200, 20
		work, most := 0, 0
		step := func() {
			n.mu.Lock()
			work++
			most = max(most, work)
			n.mu.Unlock()
			runtime.Gosched()
			n.mu.Lock()
			work--
			n.mu.Unlock()
		}
		for i := range guests {
			n.must(i%7, func(pl *Place) {
				for range waits {
					step()
					pl.Leave()
					runtime.Gosched()
					pl.Return()
				}
				if i%3 == 0 {
					pl.Quit()
				}
			})
		}
		synctest.Wait()
		if s := n.p.Stats(); s.Left != guests*waits+(guests+2)/3 || s.Parked != 0 || s.Workers > 4 || most > 4 {
			n.t.Errorf("at most %d worked, %+v", most, s)
		}
	})
}
