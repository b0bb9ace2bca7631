package sqlstore

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	spentLife = time.Minute

	sqlSpend      = `INSERT INTO spent (node, name, key, n, at) VALUES (?, ?, ?, ?, ?)`
	sqlDropSpent  = `DELETE FROM spent WHERE at < ?`
	sqlOtherSpent = `SELECT seq, node, name, key, n FROM spent WHERE seq > ? ORDER BY seq LIMIT ?`
)

// ShareSpent implements store.SharedLimits.
func (db *DB) ShareSpent(ctx context.Context, all []store.Spent) error {
	if db.o.Alone || len(all) == 0 {
		return nil
	}
	return db.write(ctx, func(t *tx) error {
		now := t.now()
		if err := t.exec(sqlDropSpent, now-spentLife.Milliseconds()); err != nil {
			return err
		}
		for _, s := range all {
			if err := t.exec(sqlSpend, t.me, s.Limit, s.Key, s.N, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// OthersSpent implements store.SpentReader.
func (r *reader) OthersSpent(ctx context.Context, after int64) (all []store.Spent, at int64, more bool, err error) {
	at = after
	rows := 0
	others, err := list(ctx, r.db, func(s scanner) (told store.Spent, err error) {
		err = s.Scan(&at, &told.Node, &told.Limit, &told.Key, &told.N)
		if rows++; told.Node == r.node {
			told = store.Spent{}
		}
		return told, err
	}, sqlOtherSpent, after, store.SpentRows)
	for _, told := range others {
		if told.Limit != "" {
			all = append(all, told)
		}
	}
	return all, at, rows == store.SpentRows, err
}
