package hub

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	feedRows    = 256 // of one read
	feedRetry   = 100 * time.Millisecond
	feedMax     = 5 * time.Second       // between two attempts to read
	feedTimeout = 2 * time.Second       // of one read
	feedRebuild = time.Minute           // of reading everything that is open
	feedWait    = 20 * time.Millisecond // for a part that the bus may bring
	feedHeld    = 256                   // parts that wait for one before them
)

// feed follows the store's feed. What the hub knows, and what it tells, comes from there, whoever has committed it. The
// outcome of a command only answers it, once the feed has come to it: the next command of that client must not find the
// state before. Parts that are missing are read, and sessions whose login may have ended checked, on one goroutine.
type feed struct {
	hub  *Hub
	kick chan struct{} // holds one element while parts are to be read
	miss chan struct{} // holds one element while a part is missing that the bus may bring
	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup
	stop func() // following

	turn sync.Mutex // held while a part that comes is taken over

	mu      sync.Mutex
	at      int64         // everything up to it has been taken over
	seen    int64         // the last part that was heard of
	behind  bool          // parts are missing: what comes meanwhile is read, too
	ended   bool          // nothing comes any more
	held    []*store.Fed  // parts behind one that is missing, in order
	late    time.Time     // since when something is missing, zero = nothing is
	longest time.Duration // that a part took to get here, since the last beat
	awaited int64         // the bus has time to bring everything up to it, 0 = nothing is missing
	waiting []waiting     // in the order of their places
}

// waiting is the answer to a command that waits until the feed has come to the command's place.
type waiting struct {
	place  int64
	answer func()
}

func newFeed(h *Hub) *feed {
	f := &feed{hub: h, kick: make(chan struct{}, 1), miss: make(chan struct{}, 1), stop: func() {}}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// follow begins to listen. Until start, parts are only noted.
func (f *feed) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = true
	f.at, f.stop = f.hub.o.Store.Follow(f.tell)
	f.seen = f.at
}

func (f *feed) start() {
	f.done.Go(f.run)
	wake(f.kick)
}

// close ends the feed. Whoever waits for it is answered.
func (f *feed) close() {
	f.stop()
	f.end()
	f.done.Wait()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.release(math.MaxInt64)
}

// tell takes a part over that the store tells of. The other servers are told before anybody here, because their clients
// have waited longer by then.
func (f *feed) tell(part *store.Fed) {
	if part.First <= part.Last {
		f.hub.peers.committed(part)
	}
	part.At = 0 // it has not come from anywhere
	f.take(part)
}

// take takes a part over, and those that have waited for it. It runs on the store's goroutine and on that of the bus.
func (f *feed) take(part *store.Fed) {
	f.turn.Lock()
	defer f.turn.Unlock()
	if !f.follows(part) {
		return
	}
	for ; part != nil; part = f.unhold() {
		f.apply(part)
	}
}

// unhold returns the part that was held and comes next, nil = there is none.
func (f *feed) unhold() *store.Fed {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) > 0 && f.held[0].Last <= f.at {
		f.held = f.held[1:]
	}
	if len(f.held) == 0 || f.held[0].First > f.at+1 {
		return nil
	}
	next := f.held[0]
	f.held = f.held[1:]
	return next
}

// follows reports whether a part comes next. One that another one has to come before is held, or will be read.
func (f *feed) follows(part *store.Fed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heardOf(part.Last)
	switch {
	case f.ended:
	case f.behind:
		wake(f.kick)
	case part.Last <= f.at:
	case part.First <= f.at+1:
		return true
	case f.hold(part):
		f.await()
	default:
		f.fallBehind()
	}
	return false
}

// heardOf notes that there is something up to a place. feed.mu is held.
func (f *feed) heardOf(place int64) {
	f.seen = max(f.seen, place)
	if f.seen > f.at && f.late.IsZero() {
		f.late = f.hub.o.Now()
	}
}

// hold keeps a part until the one before it has come. False means that this does not help. feed.mu is held.
func (f *feed) hold(part *store.Fed) bool {
	if len(f.held) == feedHeld || !f.hub.o.Bus.Up() {
		return false
	}
	i, known := slices.BinarySearchFunc(f.held, part.First, func(p *store.Fed, first int64) int { return cmp.Compare(p.First, first) })
	if !known && part.First <= part.Last {
		f.held = slices.Insert(f.held, i, part)
	}
	return true
}

// fallBehind lets what is missing be read. feed.mu is held.
func (f *feed) fallBehind() {
	f.behind, f.held = true, nil
	f.hub.Counters.FeedGaps.Add(1)
	wake(f.kick)
}

// place returns how far the feed has been taken over.
func (f *feed) place() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// apply brings the hub's memory up to date, lets the client be answered whose command this was, and tells everybody
// concerned. Only one goroutine at a time calls it: while parts are read the feed's own, else the one that takes.
func (f *feed) apply(part *store.Fed) {
	h := f.hub
	var n *news
	f.guard(func() { n = h.takeOver(part) })
	f.took(part.At)
	f.reached(part.Last)
	if n != nil {
		f.guard(func() { h.publish(n) })
	}
}

// took counts how long a part that another server has committed at a time took to get here.
func (f *feed) took(at int64) {
	if at == 0 {
		return
	}
	d := max(time.Duration(f.hub.o.Now().UnixMilli()-at)*time.Millisecond, 0)
	f.hub.lags.Add(d)
	f.mu.Lock()
	f.longest = max(f.longest, d)
	f.mu.Unlock()
}

// standing returns how far the feed has been taken over, how many rows are missing that were heard of, and the longest time
// that a part took to get here since the call before.
func (f *feed) standing() (place, behind int64, longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest, f.longest = f.longest, 0
	return f.at, max(f.seen-f.at, 0), longest
}

// guard keeps a panic from ending the feed.
func (f *feed) guard(do func()) {
	defer f.hub.contain(nil, func(*proto.Error) {})
	do()
}

// after calls answer when the feed has come to a place, at once if it has. It runs on the store's goroutine.
func (f *feed) after(place int64, answer func()) {
	f.mu.Lock()
	wait := place > f.at && !f.ended
	if wait {
		f.waiting = slices.Insert(f.waiting, f.ahead(place), waiting{place, answer}) // at the end, if they come as they were committed
	}
	f.mu.Unlock()
	if !wait {
		answer()
	}
}

// reached notes that everything up to a place has been taken over, and answers those who wait for it.
func (f *feed) reached(place int64) {
	f.mu.Lock()
	if f.at = max(f.at, place); f.at >= f.seen {
		f.late = time.Time{}
	}
	f.mu.Unlock()
	f.release(place)
}

// release answers those who wait for a place up to this one. What they asked for is committed in any case.
func (f *feed) release(place int64) {
	f.mu.Lock()
	n := f.ahead(place)
	due := f.waiting[:n]
	if f.waiting = f.waiting[n:]; len(f.waiting) == 0 {
		f.waiting = nil
	}
	f.mu.Unlock()
	for _, w := range due {
		f.guard(w.answer)
	}
}

// ahead returns how many wait for a place up to this one. feed.mu is held.
func (f *feed) ahead(place int64) int {
	n, _ := slices.BinarySearchFunc(f.waiting, place, func(w waiting, place int64) int {
		if w.place <= place {
			return -1
		}
		return 1
	})
	return n
}

func (f *feed) run() {
	var late <-chan time.Time // the part that is missing does not come any more
	giveUp := func() bool { return true }
	defer func() { giveUp() }()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.miss:
			if late == nil {
				late, giveUp = f.hub.o.After(feedWait)
			}
			continue
		case <-late:
			late = nil
			f.missed()
			continue
		case <-f.kick:
		}
		for failed := 0; ; failed++ {
			f.recheck()
			err := f.catchUp()
			if err == nil {
				break
			}
			if f.ctx.Err() != nil {
				return
			}
			f.hub.o.Logger.Warn("desk: what has been committed cannot be read", "err", err)
			f.release(math.MaxInt64)
			fired, giveUp := f.hub.o.After(min(feedRetry<<min(failed, 10), feedMax))
			select {
			case <-f.ctx.Done():
				giveUp()
				return
			case <-fired:
			}
		}
	}
}

// missed lets what is awaited be read, if it has not come. What was heard of meanwhile has a time of its own.
func (f *feed) missed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	behind := f.at < f.awaited
	f.awaited = 0
	switch {
	case f.behind, f.at >= f.seen:
	case behind:
		f.fallBehind()
	default:
		f.await()
	}
}

// await gives the bus its time to bring what was heard of. feed.mu is held.
func (f *feed) await() {
	if f.awaited == 0 {
		f.awaited = f.seen
		wake(f.miss)
	}
}

func (f *feed) recheck() {
	ctx, cancel := context.WithTimeout(f.ctx, feedTimeout)
	defer cancel()
	f.guard(func() { f.hub.recheck(ctx) })
}

// catchUp reads what is missing until nothing is.
func (f *feed) catchUp() error {
	for {
		f.mu.Lock()
		at, seen := f.at, f.seen
		f.behind = f.behind && at < seen // else a part is being taken over now
		behind := f.behind
		f.mu.Unlock()
		if !behind {
			return nil
		}
		if err := f.read(at, seen); err != nil {
			return err
		}
	}
}

// read takes over a page of what is behind at. Rows up to seen are committed.
func (f *feed) read(at, seen int64) error {
	ctx, cancel := context.WithTimeout(f.ctx, feedTimeout)
	defer cancel()
	page, err := f.hub.o.Store.Hot().Fed(ctx, at, feedRows)
	if err != nil {
		return err
	}
	if page.Floor > at {
		if err := f.rebuild(); err != nil {
			return err
		}
	}
	for i := range page.All {
		f.apply(&page.All[i])
	}
	to := page.Last
	if !page.More {
		to = max(to, seen)
	}
	f.reached(to)
	return nil
}

// rebuild reads the open conversations and the turns of bots again, because rows are gone that the hub has not seen.
// Sessions end, and resume by what they have. A turn that is under way already may be asked twice.
func (f *feed) rebuild() error {
	h := f.hub
	ctx, cancel := context.WithTimeout(f.ctx, feedRebuild)
	defer cancel()
	open, err := h.o.Store.Hot().OpenConversations(ctx)
	if err != nil {
		return err
	}
	pending, err := h.o.Store.Hot().BotPending(ctx)
	if err != nil {
		return err
	}
	offers, err := h.o.Store.Hot().Offers(ctx)
	if err != nil {
		return err
	}
	if err := h.rereadPresences(ctx); err != nil {
		return err
	}
	there := make(map[string]bool, len(open))
	for i := range open {
		there[open[i].ID] = true
	}
	for _, c := range h.known() {
		if !there[c.ID] {
			c.State, c.Rev = store.Closed, math.MaxInt64
			open = append(open, c)
		}
	}
	for i := range open {
		f.guard(func() { h.takeOver(&store.Fed{Conv: open[i], Touched: true}) })
	}
	h.mu.Lock()
	h.queue.offersAre(offers)
	h.mu.Unlock()
	h.everyoneTold()
	for _, p := range pending {
		h.startTurn(p)
	}
	h.Counters.Rebuilds.Add(1)
	h.rechecks.count.Add(1)
	h.reload()
	h.o.HooksChanged()
	for _, s := range h.everySession() {
		s.close(proto.CloseTryLater, "the server has to read again what has happened")
	}
	h.ticker.wake()
	return nil
}

// known returns the conversations that the hub takes for open.
func (h *Hub) known() []store.Conversation {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]store.Conversation, 0, len(h.queue.dir.open))
	for _, e := range h.queue.dir.open {
		all = append(all, e.conv)
	}
	return all
}
