package sqlstore

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// feed tells followers what is committed.
type feed struct {
	mu        sync.Mutex
	at        int64 // number of the last row that was told
	followers []*follower
}

type follower struct{ take func(*store.Fed) }

// begun notes where the feed begins.
func (t *tx) begun() error {
	err := errors.Join(t.last(), t.sync())
	t.db.feed.at = t.seq
	return err
}

// last asks for the last number of the outbox, for sync. If another process has written since, what is remembered of the
// messages counts no more.
func (t *tx) last() error {
	asked := time.Now()
	err := t.later(func(r scanner) error {
		var seq, clock int64
		if err := r.Scan(&seq, &clock); err != nil {
			return err
		}
		t.db.clock.set(clock, asked)
		if seq != t.seq {
			t.maxDoc = 0
		}
		t.seq, t.stored = seq, seq
		return nil
	}, t.db.on.dialect().last)
	if err != nil || !t.db.o.Several {
		return err
	}
	return t.later(func(r scanner) error {
		var doc int64
		err := r.Scan(&doc)
		if t.maxDoc == 0 {
			t.maxDoc = doc
		}
		return err
	}, sqlLastDoc, int64(math.MaxInt64))
}

// note writes down the last number of the outbox, and tells other processes.
func (t *tx) note() error {
	if t.seq == t.stored {
		return nil
	}
	last := strconv.FormatInt(t.seq, 10)
	if err := t.exec(`UPDATE setting SET value = ? WHERE key = 'outbox_last'`, last); err != nil || t.notify == "" {
		return err
	}
	return t.exec(t.notify, t.me+" "+last)
}

// Follow implements store.Feed.
func (db *DB) Follow(take func(*store.Fed)) (at int64, stop func()) {
	f, me := &db.feed, &follower{take}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers = append(slices.Clip(f.followers), me)
	return f.at, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.followers = slices.DeleteFunc(slices.Clone(f.followers), func(other *follower) bool { return other == me })
	}
}

// tell runs on the goroutine that hands outcomes out.
func (f *feed) tell(part *store.Fed) {
	f.mu.Lock()
	f.at = max(f.at, part.Last)
	followers := f.followers
	f.mu.Unlock()
	for i, one := range followers {
		own := part
		if i+1 < len(followers) { // each may change its own
			other := *part
			own = &other
		}
		one.take(own)
	}
}

// heard tells followers that another process has committed. It runs on the goroutine that hands outcomes out.
func (db *DB) heard(last int64) {
	f := &db.feed
	f.mu.Lock()
	news := last > f.at
	f.mu.Unlock()
	if news {
		db.news.tell()
		f.tell(&store.Fed{First: last + 1, Last: last})
	}
}
