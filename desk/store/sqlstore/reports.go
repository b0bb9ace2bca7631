package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

// list reads all rows of a query.
func list[T any](ctx context.Context, db *statements, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

// rowsOf are the rows of a query.
type rowsOf interface {
	scanner
	Next() bool
	Err() error
	Close() error
}

// collect reads and closes rows.
func collect[T any](rows rowsOf, scan func(scanner) (T, error)) ([]T, error) {
	defer func() { _ = rows.Close() }()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// Loads implements store.Reader.
func (r *reader) Loads(ctx context.Context) ([]store.Load, error) {
	return list(ctx, r.db, func(s scanner) (l store.Load, err error) {
		err = s.Scan(&l.Agent, &l.Active, &l.Capacity, &l.LastAssigned)
		return l, err
	}, `SELECT a.id, s.active, a.capacity, s.last_assigned_at FROM agent a JOIN agent_state s ON s.agent = a.id ORDER BY a.id`)
}

// Assignments implements store.Reader.
func (r *reader) Assignments(ctx context.Context, conv string) ([]store.Assignment, error) {
	return list(ctx, r.db, func(s scanner) (a store.Assignment, err error) {
		err = s.Scan(&a.Conv, &a.Agent, &a.Epoch, &a.Event, &a.From, &a.To)
		return a, err
	}, `SELECT conversation, agent, epoch, event, since, until FROM assignment WHERE conversation = ? ORDER BY epoch`, conv)
}

// Closings implements store.Reader.
func (r *reader) Closings(ctx context.Context, since int64) (store.Closings, error) {
	var c store.Closings
	err := r.db.QueryRowContext(ctx, `SELECT count(CASE WHEN NOT abandoned THEN 1 END), count(CASE WHEN abandoned THEN 1 END)
		FROM conversation WHERE state = 'closed' AND closed_at >= ?`, since).Scan(&c.Served, &c.Abandoned)
	return c, err
}
