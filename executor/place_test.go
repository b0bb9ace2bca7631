package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/simhook"
)

// guest is a Placed.
type guest struct {
	place Place
	run   func(pl *Place)
}

func (g *guest) Run()          { g.run(&g.place) }
func (g *guest) Place() *Place { return &g.place }

// inn is a pool of guests inside a bubble of synctest.
type inn struct {
	t    *testing.T
	p    *Pool
	mu   sync.Mutex
	said []string
}

// openInn runs f with a pool, which is shut down afterwards: nobody is left in it and none is parked.
func openInn(t *testing.T, o Options, f func(n *inn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Logger = slog.New(slog.DiscardHandler)
		p, err := NewFixed(o)
		if err != nil {
			t.Fatal(err)
		}
		f(&inn{t: t, p: p})
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		s := p.Stats()
		if s.Panics != 0 && o.OnPanic == nil || s.Parked != 0 || s.Workers != 0 || s.Completed != s.Submitted || len(p.parking.owners) != 0 || p.parking.line.len() != 0 {
			t.Errorf("left behind: %+v, owners %v, %d in line", s, p.parking.owners, p.parking.line.len())
		}
	})
}

func (n *inn) say(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, what)
}

// submit hands a guest in.
func (n *inn) submit(owner any, run func(pl *Place)) error {
	g := &guest{run: run}
	g.place.Owner = owner
	return n.p.Submit(g)
}

func (n *inn) must(owner any, run func(pl *Place)) {
	n.t.Helper()
	if err := n.submit(owner, run); err != nil {
		n.t.Fatal(err)
	}
}

// says hands in a guest that says something.
func (n *inn) says(what string) {
	if err := n.submit(nil, func(*Place) { n.say(what) }); err != nil {
		n.t.Error(err)
	}
}

// parks hands in a guest that is parked until the channel is closed, and then says its name.
func (n *inn) parks(owner any, name string, until <-chan struct{}) {
	n.t.Helper()
	n.must(owner, func(pl *Place) {
		pl.Leave()
		<-until
		pl.Return()
		n.say(name)
	})
}

// expect compares what was said, once nothing moves, and the numbers of those that run, wait and are parked.
func (n *inn) expect(said string, running, queued, parked int) {
	n.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := strings.Join(n.said, " "); got != said {
		n.t.Errorf("said %q, want %q", got, said)
	}
	n.numbers(running, queued, parked)
}

// numbers compares the numbers of those that run, wait and are parked.
func (n *inn) numbers(running, queued, parked int) {
	n.t.Helper()
	if s := n.p.Stats(); s.Running != running || s.Queued != queued || s.Parked != parked {
		n.t.Errorf("%d run, %d wait, %d are parked, want %d, %d, %d", s.Running, s.Queued, s.Parked, running, queued, parked)
	}
}

// A runner that waits gives its place to others, and comes before those that have not begun.
func TestPlaceIsLent(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10}, func(n *inn) {
		come, gate := make(chan struct{}), make(chan struct{})
		n.parks("a", "parked", come)
		n.expect("", 0, 0, 1)
		for i := range 3 {
			n.must("b", func(*Place) { <-gate; n.say(fmt.Sprint(i)) })
		}
		n.expect("", 1, 2, 1)
		close(come)
		n.expect("", 1, 2, 1) // the place is taken
		gate <- struct{}{}
		n.expect("0 parked", 1, 1, 0)
		close(gate)
		n.expect("0 parked 1 2", 0, 0, 0)
		if s := n.p.Stats(); s.Left != 1 || s.Workers != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Many that return take turns with the queue: one of it begins behind three of them, and no place stays free.
func TestPlaceTurns(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10}, func(n *inn) {
		come, gate := make(chan struct{}), make(chan struct{})
		for range 7 {
			n.parks(nil, "p", come)
		}
		n.expect("", 0, 0, 7)
		n.must(nil, func(*Place) { <-gate })
		for range 3 {
			n.must(nil, func(*Place) { n.say("q") })
		}
		n.expect("", 1, 3, 7)
		close(come)
		n.expect("", 1, 3, 7)
		close(gate)
		n.expect("p p p q p p p q p q", 0, 0, 0)
	})
}

// Those that park again and again, without ever ending, leave a turn to the queue, too.
func TestPlaceTurnsOfThoseThatPark(t *testing.T) {
	openInn(t, Options{Workers: 2, Queue: 40}, func(n *inn) {
		stop, begun := make(chan struct{}), make(chan struct{})
		for range 20 {
			n.must(nil, func(pl *Place) {
				pl.Leave()
				<-begun
				pl.Return()
				for {
					select {
					case <-stop:
						return
					default:
						pl.Leave()
						pl.Return()
					}
				}
			})
		}
		synctest.Wait()
		close(begun)
		var done sync.WaitGroup
		for range 5 {
			done.Add(1)
			n.must(nil, func(*Place) { done.Done() })
		}
		done.Wait()
		close(stop)
	})
}

// What holds the places may wait for a parked one: it goes on without a place after a while, and what it was lent is
// given back.
func TestPlaceCircle(t *testing.T) {
	openInn(t, Options{Workers: 2, Queue: 10}, func(n *inn) {
		come, lock := make(chan struct{}), make(chan struct{})
		n.must(nil, func(pl *Place) {
			pl.Leave()
			<-come
			pl.Return()
			close(lock)
			pl.Leave() // without a place to give
			<-come
			pl.Return()
			n.say("parked")
		})
		for range 2 {
			n.must(nil, func(*Place) { <-lock; n.say("holder") })
		}
		n.must(nil, func(*Place) { n.say("queued") })
		n.expect("", 2, 1, 1)
		close(come)
		<-lock // the clock of the bubble goes on when nothing else does
		synctest.Wait()
		slices.Sort(n.said)
		n.expect("holder holder parked queued", 0, 0, 0)
		if s := n.p.Stats(); s.Workers > 2 {
			t.Errorf("%d workers are left of 2", s.Workers)
		}
	})
}

// One that has quit runs on beside the workers until it ends; and so does one that several goroutines wait for, until the
// last has returned.
func TestPlaceQuit(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 1}, func(n *inn) {
		gate := make(chan struct{})
		for range 3 {
			n.must("stream", func(pl *Place) {
				pl.Quit()
				pl.Leave()
				pl.Return()
				<-gate
				n.say("stream")
			})
			synctest.Wait()
		}
		n.expect("", 0, 0, 3)
		busy := make(chan struct{})
		n.must(nil, func(*Place) { <-busy; n.say("busy") })
		close(gate)
		n.expect("stream stream stream", 1, 0, 0)
		close(busy)
		n.expect("stream stream stream busy", 0, 0, 0)
		if s := n.p.Stats(); s.Workers != 1 || s.Left != 3 {
			t.Errorf("%+v", s)
		}

		first, second := make(chan struct{}), make(chan struct{})
		n.must(nil, func(pl *Place) {
			var wg sync.WaitGroup
			for _, c := range []chan struct{}{first, second} {
				wg.Go(func() {
					pl.Leave()
					<-c
					pl.Return()
				})
			}
			wg.Wait()
		})
		n.expect("stream stream stream busy", 0, 0, 1)
		close(first)
		n.expect("stream stream stream busy", 0, 0, 1)
		close(second)
		n.expect("stream stream stream busy", 0, 0, 0)
	})
}

// A goroutine that waits still when the runner has ended takes no place any more, nor does one that was never lent one.
func TestPlaceAfterTheEnd(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 1}, func(n *inn) {
		late, over := make(chan struct{}), make(chan struct{})
		left := make(chan struct{})
		var g guest
		g.run = func(pl *Place) {
			go func() {
				pl.Leave()
				close(left)
				<-late
				pl.Return()
				pl.Leave()
				pl.Quit()
				close(over)
			}()
			<-left
			n.numbers(0, 0, 1)
		}
		if err := n.p.Submit(&g); err != nil {
			t.Fatal(err)
		}
		n.expect("", 0, 0, 0)
		close(late)
		<-over
		n.expect("", 0, 0, 0)
		if g.place.Crowded() {
			t.Error("crowded when it is over")
		}
	})
}

// What was called before the runner began counts for nothing.
func TestPlaceBeforeTheBegin(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 1}, func(n *inn) {
		g := guest{run: func(pl *Place) {
			n.numbers(1, 0, 0)
			pl.Leave()
			n.numbers(0, 0, 1)
			pl.Return()
			n.numbers(1, 0, 0)
			n.say("over")
		}}
		g.place.Leave()
		g.place.Quit()
		if err := n.p.Submit(&g); err != nil {
			t.Fatal(err)
		}
		n.expect("over", 0, 0, 0)
	})
}

// Panics and Goexit of parked ones cost no worker and leave nothing parked.
func TestPlaceOfThoseThatFail(t *testing.T) {
	openInn(t, Options{Workers: 1, Queue: 10, OnPanic: func(any, []byte) {}}, func(n *inn) {
		for _, fail := range []func(){func() { panic("oops") }, runtime.Goexit} {
			n.must("a", func(pl *Place) { pl.Leave(); fail() })
			n.must("a", func(pl *Place) { pl.Quit(); fail() })
			n.must("a", func(pl *Place) { pl.Leave(); defer pl.Return(); fail() })
		}
		n.must(nil, func(*Place) { n.say("alive") })
		n.expect("alive", 0, 0, 0)
		if s := n.p.Stats(); s.Workers != 1 || s.Left != 6 {
			t.Errorf("%+v", s)
		}
	})
}

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

// A place that is left is room: for a submission that waits, and for who asked to be told.
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
		Simulate(n.p, machine{&waits})
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
