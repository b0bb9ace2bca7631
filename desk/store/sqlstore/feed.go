package sqlstore

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"

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
	err := t.last()
	t.db.feed.at = t.seq
	return err
}

// last reads the last number of the outbox. If another process has written since, what is remembered of the messages counts
// no more.
func (t *tx) last() error {
	var seq, clock, doc int64
	if t.db.o.Several {
		last, lastDoc := t.pair(statement{query: t.db.on.dialect().last}, statement{sqlLastDoc, []any{int64(math.MaxInt64)}})
		err := last.Scan(&seq, &clock)
		if err = errors.Join(err, lastDoc.Scan(&doc)); err != nil {
			return err
		}
	} else if err := t.row(t.db.on.dialect().last).Scan(&seq, &clock); err != nil {
		return err
	}
	t.db.clock.set(clock)
	if seq != t.seq {
		t.maxDoc = doc
	}
	t.seq, t.stored = seq, seq
	return nil
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
