package sqlstore

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlFed = `SELECT ` + rowColumns + `, CASE first WHEN 0 THEN seq ELSE first END FROM outbox
		WHERE seq > greatest(CAST(? AS BIGINT), (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_floor')) ORDER BY seq LIMIT ?`
	sqlFedTurn = `SELECT EXISTS (SELECT 1 FROM bot_turn t ` + sqlOpenTurns + `AND t.id = ?)`
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
	var seq, clock int64
	if err := t.row(t.db.on.dialect().last).Scan(&seq, &clock); err != nil {
		return err
	}
	t.db.clock.set(clock)
	if seq != t.seq {
		t.maxDoc = 0
	}
	t.seq, t.stored = seq, seq
	return nil
}

// note writes down the last number of the outbox.
func (t *tx) note() error {
	if t.seq == t.stored {
		return nil
	}
	return t.exec(`UPDATE setting SET value = ? WHERE key = 'outbox_last'`, strconv.FormatInt(t.seq, 10))
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
	f.at = part.Last
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

// Fed implements store.FeedReader.
func (r *reader) Fed(ctx context.Context, after int64, limit int) (p store.FedPage, err error) {
	rows, err := list(ctx, r.db, func(s scanner) (store.OutboxRow, error) {
		var first int64
		row, err := scanRow(s, &first)
		row.First = first
		return row, err
	}, sqlFed, after, limit)
	if err != nil {
		return p, err
	}
	var last int64
	if err := r.db.QueryRowContext(ctx, sqlSeqs).Scan(&p.Floor, &last); err != nil {
		return p, err
	}
	if p.More = len(rows) == limit; p.More { // the last command may go on behind them
		end := rows[limit-1].First
		if n := slices.IndexFunc(rows, func(row store.OutboxRow) bool { return row.First == end }); n > 0 {
			rows = rows[:n]
		}
	}
	p.Last = after
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].First == rows[0].First {
			n++
		}
		part, err := r.part(ctx, rows[:n])
		if err != nil {
			return p, err
		}
		p.All, p.Last, rows = append(p.All, part), part.Last, rows[n:]
	}
	return p, nil
}

// part reads what the rows of one command are about. What has been deleted meanwhile is left out.
func (r *reader) part(ctx context.Context, rows []store.OutboxRow) (f store.Fed, err error) {
	f.First, f.Last = rows[0].First, rows[len(rows)-1].Seq
	conv, from, n := "", uint64(0), 0
	for i := range rows {
		row := &rows[i]
		if row.Conv == "" {
			c, err := scanContact(r.db.QueryRowContext(ctx, sqlAnyContact, row.Contact))
			if err == nil {
				f.Contacts = append(f.Contacts, c)
			} else if !errors.Is(err, store.ErrNotFound) {
				return f, err
			}
			continue
		}
		if conv = row.Conv; row.Event != 0 {
			if n++; n == 1 {
				from = row.Event
			}
		}
	}
	if conv == "" {
		return f, nil
	}
	f.Conv, err = r.Conversation(ctx, conv)
	if errors.Is(err, store.ErrNotFound) {
		return f, nil
	}
	f.Touched = true // it cannot be seen
	if err != nil || n == 0 {
		return f, err
	}
	if f.Events, _, err = r.Events(ctx, conv, store.StaffSide, from-1, n, math.MaxInt); err != nil || len(f.Events) == 0 {
		return f, err
	}
	var open bool
	id := f.Events[len(f.Events)-1].ID
	if err = r.db.QueryRowContext(ctx, sqlFedTurn, id).Scan(&open); open {
		f.Turn = id
	}
	return f, err
}
