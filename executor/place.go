package executor

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultParked is the number of parked runners of a pool whose Options.Parked is 0. With an ordinary stack of 20 KB
	// each, they hold about 80 MB together.
	DefaultParked = 4096

	// NoParking as Options.Parked lets every runner keep its place, whatever it waits for.
	NoParking = -1
)

const (
	// placePatience is how long a parked runner waits for a place before it goes on without one. Those that have the
	// places may wait for something that it holds, such as a lock or a connection to a database.
	placePatience = 100 * time.Millisecond

	// returnsInRow is how many parked runners get a place before work that has not begun gets one.
	returnsInRow = 3

	// ownersPart bounds an owner's share. One more of its runners may begin while ownersPart times its parked ones are
	// fewer than the free places for parked runners.
	ownersPart = 3
)

// Placed is a Runner that gives its worker's place to others while it waits; see Place.
type Placed interface {
	Runner
	// Place returns the runner's place, always the same one.
	Place() *Place
}

// Place stands for one of the Options.Workers places of a pool, which a Placed occupies while it runs. Leave gives the
// place to other runners until Return. A runner without its place is parked. A parked runner keeps its goroutine, which
// Shutdown waits for.
//
// A runner that returns comes before those that have not begun, except that every fourth place is theirs. It waits for a
// place for 100 ms at most. Then it goes on beyond Options.Workers, because the runners that hold the places may wait
// for it.
//
// Parked runners are bounded when a Placed begins, not when it parks: see Options.Parked.
//
// The zero value is ready. Any goroutine may call Leave, Return, Quit and Waste while the runner runs. At other times, and for
// a runner that is not on a worker (CallerRuns), they do nothing.
type Place struct {
	// Owner is for whom the runner works, such as the network of a client. One owner cannot have all parked runners.
	// Owner must be comparable and set before Submit. nil means nobody, to whom no share applies.
	Owner any

	mu    sync.Mutex
	pool  *Pool // while the runner runs on a worker
	waits int   // calls of Leave without their Return
	away  bool  // parked
	left  bool  // has been parked
	quit  bool
	vain  bool          // Waste was called
	ready chan struct{} // closed when the line gives this runner a place
}

// parking is what a Pool knows of its parked runners.
type parking struct {
	now     atomic.Int64
	left    atomic.Uint64
	crowded atomic.Uint64

	// Under the pool's lock.
	owners map[any]int  // number of parked runners, for each owner that has any
	line   fifo[*Place] // parked runners that wait for a place
	row    int          // places given to the line since work from the queue last began
}

// Leave gives the runner's place to others until Return is called. Each Leave needs one Return. When several goroutines
// wait for one runner, the first Leave gives the place up and the last Return takes one again.
func (pl *Place) Leave() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.waits++
	pl.park()
}

// Return takes a place again. It blocks until there is one, for at most 100 ms.
func (pl *Place) Return() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.waits--; pl.waits == 0 && pl.away && !pl.quit {
		pl.pool.seat(pl)
	}
}

// Quit gives the place up for good. The runner is parked until it ends, and Return does not wait. Use Quit for a runner
// that waits most of the time from now on, such as a stream of events.
func (pl *Place) Quit() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.quit = true
	pl.park()
}

// Waste notes that the runner has worked for nothing, because its client has left. An adaptive pool then lowers its limit, if less at once loses fewer.
func (pl *Place) Waste() {
	pl.mu.Lock()
	pl.vain = true
	pl.mu.Unlock()
}

// Crowded reports that a runner must not begin because of Options.Parked, although there was room when it was taken. The
// runner calls Crowded first of all. If Crowded is true, the runner does what it would do when Submit refuses it.
func (pl *Place) Crowded() bool {
	p := pl.pool // without pl.mu: only the worker that calls it writes there
	if p == nil || p.spacious() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crowd(pl) != nil
}

// park makes the runner a parked one. pl.mu is held.
func (pl *Place) park() {
	if pl.pool != nil && !pl.away && pl.pool.o.Parked > 0 {
		pl.pool.park(pl)
	}
}

// occupy notes that a worker begins with r, and returns r's place, nil if r is not a Placed.
func (p *Pool) occupy(r Runner) *Place {
	placed, ok := r.(Placed)
	if !ok {
		return nil
	}
	pl := placed.Place()
	pl.mu.Lock()
	pl.pool, pl.waits, pl.quit, pl.left, pl.vain = p, 0, false, false, false
	pl.mu.Unlock()
	return pl
}

// vacate follows the end of the runner, and returns whether it has been parked, and whether it worked for nothing. If the runner ended without a place, its
// worker counts beyond the limit, and ends unless somebody leaves a place meanwhile.
func (pl *Place) vacate() (left, vain bool) {
	pl.mu.Lock()
	left, vain = pl.left, pl.vain
	if pl.away {
		pl.pool.mu.Lock()
		pl.pool.unpark(pl)
		pl.pool.mu.Unlock()
	}
	pl.pool = nil
	pl.mu.Unlock()
	return left, vain
}

// park gives the place of a runner to others. pl.mu is held.
func (p *Pool) park(pl *Place) {
	k := &p.parking
	p.mu.Lock()
	pl.away, pl.left = true, true
	if p.adaptive != nil {
		p.adaptive.c.Leave(p.adaptive.o.Now())
	}
	k.now.Add(1)
	k.left.Add(1)
	if pl.Owner != nil {
		if k.owners == nil {
			k.owners = make(map[any]int)
		}
		k.owners[pl.Owner]++
	}
	p.leave(1)
	p.readmit()
	p.passOn()
}

// passOn lets waiting work begin and tells those that wait for room, where something has become free. p.mu is held when
// it is called, and not when it returns.
func (p *Pool) passOn() {
	p.admit()
	told := p.offer()
	next := p.call()
	p.unlock()
	next.look()
	tellAll(told)
}

// unpark gives the runner a place, whether one is free or not. p.mu is held.
func (p *Pool) unpark(pl *Place) {
	k := &p.parking
	pl.away = false
	if p.adaptive != nil {
		p.adaptive.c.Begin(p.adaptive.o.Now())
	}
	k.now.Add(-1)
	if pl.Owner != nil {
		if k.owners[pl.Owner]--; k.owners[pl.Owner] == 0 {
			delete(k.owners, pl.Owner)
		}
	}
	p.leave(-1)
}

// seat waits until a parked runner has a place, for placePatience at most. pl.mu is held.
func (p *Pool) seat(pl *Place) {
	p.mu.Lock()
	if p.staff.live < p.o.Workers || len(p.staff.idle) > 0 || p.state == stopped {
		var ending []*worker
		if p.staff.live >= p.o.Workers && p.state != stopped {
			ending = p.dropIdle(1)
		}
		p.unpark(pl)
		p.mu.Unlock()
		for _, w := range ending {
			w.next <- false
		}
		return
	}
	pl.ready = make(chan struct{})
	p.parking.line.push(pl)
	p.mu.Unlock()
	if p.awaitSeat(pl.ready) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line := &p.parking.line
	if _, ok := line.remove(line.len(), func(o *Place) bool { return o == pl }); ok { // else its turn came at the last moment
		p.unpark(pl)
	}
}

// awaitSeat reports whether the line gave the runner a place in time. On a simulated machine there is no timeout.
func (p *Pool) awaitSeat(ready <-chan struct{}) bool {
	if p.sim != nil {
		return p.sim.Await(ready, nil)
	}
	timer := time.NewTimer(placePatience)
	defer timer.Stop()
	select {
	case <-ready:
		return true
	case <-timer.C:
		return false
	}
}

// returning reports whether the next free place goes to the line of parked runners. p.mu is held.
func (p *Pool) returning() bool {
	k := &p.parking
	return k.line.len() > 0 && (k.row < returnsInRow || p.queue.len() == 0)
}

// readmit gives free places to the line, or all that the line needs once the pool is stopped. p.mu is held.
func (p *Pool) readmit() {
	for (p.staff.live < p.o.Workers || p.state == stopped) && p.returning() {
		pl, _ := p.parking.line.pop()
		p.parking.row++
		p.unpark(pl)
		close(pl.ready)
	}
}

// spacious reports that so few runners are parked that no owner can have too many.
func (p *Pool) spacious() bool {
	return int(p.parking.now.Load())*(ownersPart+1) < p.o.Parked || p.o.Parked == 0
}

// crowd returns why no further runner of pl's owner may begin, or nil if one may. A refusal is counted. p.mu is held.
func (p *Pool) crowd(pl *Place) *LimitError {
	k := &p.parking
	free := p.o.Parked - int(k.now.Load())
	switch {
	case free <= 0:
		k.crowded.Add(1)
		return &LimitError{Pool: p.o.Name, What: "the number of parked runners", Limit: p.o.Parked}
	case k.owners[pl.Owner]*ownersPart >= free:
		k.crowded.Add(1)
		return &LimitError{Pool: p.o.Name, What: "an owner's share of the parked runners", Limit: k.owners[pl.Owner], Key: true}
	}
	return nil
}

// refuseCrowd refuses r, where the pool is not spacious, if r may park and too many runners are parked. p.mu is held.
func (p *Pool) refuseCrowd(r Runner) error {
	placed, ok := r.(Placed)
	if !ok {
		return nil
	}
	limit := p.crowd(placed.Place())
	if limit == nil {
		return nil
	}
	if !limit.Key {
		p.exhaust()
	}
	p.counts.rejected.Add(1)
	return limit
}
