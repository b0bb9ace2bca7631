package desk

import (
	"context"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

// Engine returns the server that Start has started, nil before. Use it to look at the server, not to end it.
func (d *Desk) Engine() *eddy.Server { return d.server }

// HTTP returns the protocol of the server that Start has started, nil before. Use it only to look at it.
func (d *Desk) HTTP() *http1.Factory { return d.http }

// Pools returns the pools that requests and commands run on, those of HTTP only after Start. Use them only to look at
// them.
func (d *Desk) Pools() []*executor.Pool {
	all := d.hub.Pools()
	if d.pool != nil {
		all = append(all, d.pool)
	}
	return all
}

// Ready returns nil when the database answers and has taken the last write. It checks the same as the page /readyz. Any
// goroutine.
func (d *Desk) Ready(ctx context.Context) error { return d.front.Ready(ctx) }
