package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlConvs   = `SELECT ` + convColumns + convFrom + `WHERE (c.opened_at, c.id) < (?, ?) AND c.opened_at >= ? ORDER BY c.opened_at DESC, c.id DESC LIMIT ?`
	sqlConvsIn = `SELECT ` + convColumns + convFrom + `WHERE c.state = ? AND (c.opened_at, c.id) < (?, ?) AND c.opened_at >= ?
		ORDER BY c.opened_at DESC, c.id DESC LIMIT ?`
)

// Conversations implements store.Reader.
func (r *reader) Conversations(ctx context.Context, q store.ConvQuery) ([]store.Conversation, string, error) {
	if q.Limit < 1 || q.Limit > store.MaxConvPage {
		q.Limit = store.MaxConvPage
	}
	opened, id, err := cursorAt(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if q.To != 0 && q.To <= opened {
		opened, id = q.To, ""
	}
	query, args := sqlConvs, []any{opened, id, q.From, q.Limit + 1}
	if q.State != store.None {
		query, args = sqlConvsIn, append([]any{string(q.State)}, args...)
	}
	all, err := r.convs(ctx, query, args...)
	if err != nil || len(all) <= q.Limit {
		return all, "", err
	}
	return all[:q.Limit], cursorAfter(&all[q.Limit-1]), nil
}
