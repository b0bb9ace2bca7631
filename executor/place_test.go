package executor

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
