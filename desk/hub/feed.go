package hub

import (
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
	feedMax     = 5 * time.Second // between two attempts to read
	feedTimeout = 2 * time.Second // of one read
	feedRebuild = time.Minute     // of reading everything that is open
)

// feed follows the store's feed. What the hub knows, and what it tells, comes from there, whoever has committed it. The
// outcome of a command only answers it, once the feed has come to it: the next command of that client must not find the
// state before. Parts that are missing are read, and sessions whose login may have ended checked, on one goroutine.
type feed struct {
	hub  *Hub
	kick chan struct{} // holds one element while parts are to be read
	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup
	stop func() // following

	mu      sync.Mutex
	at      int64     // everything up to it has been taken over
	seen    int64     // the last part that was heard of
	behind  bool      // parts are missing: what comes meanwhile is read, too
	ended   bool      // nothing comes any more
	waiting []waiting // in the order of their places
}

// waiting is the answer to a command that waits until the feed has come to the command's place.
type waiting struct {
	place  int64
	answer func()
}

func newFeed(h *Hub) *feed {
	f := &feed{hub: h, kick: make(chan struct{}, 1), stop: func() {}}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// follow begins to listen. Until start, parts are only noted.
func (f *feed) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = true
	f.at, f.stop = f.hub.o.Store.Follow(f.take)
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

// take takes a part over. It runs on the store's goroutine.
func (f *feed) take(part *store.Fed) {
	f.mu.Lock()
	f.seen = max(f.seen, part.Last)
	if !f.behind && part.First > f.at+1 {
		f.behind = true
		f.hub.Counters.FeedGaps.Add(1)
	}
	behind, known := f.behind, part.Last <= f.at
	f.mu.Unlock()
	switch {
	case behind:
		wake(f.kick)
	case !known:
		f.apply(part)
	}
}

// place returns how far the feed has been taken over.
func (f *feed) place() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// apply brings the hub's memory up to date, lets the client be answered whose command this was, and tells everybody
// concerned. Only one goroutine at a time calls it: while parts are missing the feed's own, else the store's.
func (f *feed) apply(part *store.Fed) {
	h := f.hub
	var n *news
	f.guard(func() { n = h.takeOver(part) })
	f.reached(part.Last)
	if n != nil {
		f.guard(func() { h.publish(n) })
	}
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
	f.at = max(f.at, place)
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
	for {
		select {
		case <-f.ctx.Done():
			return
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
