package desk

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

// Engine returns the server that Start has started, nil before; it is for looking at, not for ending.
func (d *Desk) Engine() *eddy.Server { return d.server }

// HTTP returns the protocol of that server, nil before; for looking at.
func (d *Desk) HTTP() *http1.Factory { return d.http }

// Pools returns the pools that requests and commands run on, those of HTTP only after Start. They are for looking at.
func (d *Desk) Pools() []*executor.Pool {
	all := d.hub.Pools()
	if d.pool != nil {
		all = append(all, d.pool)
	}
	return all
}

// Ready returns nil when the database answers, and has taken what was last written: the same as the page /readyz says, and
// a read besides. Any goroutine.
func (d *Desk) Ready(ctx context.Context) error {
	if err := d.store.Ready(); err != nil {
		return err
	}
	if _, err := d.store.Cold().SiteByKey(ctx, "demo"); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}
