package desk

import (
	"context"
	"fmt"
	"os"

	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/version"
)

// openBus begins to connect to the bus, if there is one. Who knows the key has the database.
func (d *Desk) openBus(ctx context.Context) error {
	if d.o.Bus == "" {
		return nil
	}
	key, err := d.store.Secret(ctx, "bus")
	if err != nil {
		return err
	}
	if d.bus, err = bus.Open(bus.Options{URL: d.o.Bus, Room: d.store.ID(), Key: key, Name: d.store.Node(), Logger: d.o.Logger}); err != nil {
		return fmt.Errorf("desk: %w", err)
	}
	return nil
}

// hubBus returns what the hub gets, nil = nothing.
func (d *Desk) hubBus() hub.Bus {
	if d.bus == nil {
		return nil
	}
	return d.bus
}

// others returns what /readyz says about the other servers, and why this one is not ready.
func (d *Desk) others() (hint string, err error) {
	if d.bus != nil && !d.bus.Up() {
		hint = "no connection to the bus: what other servers do is heard of through the database" // a little later, and who types is not seen
	}
	return hint, d.hub.Ready()
}

// busStats returns what the bus has counted, nothing without one.
func (d *Desk) busStats() bus.Stats {
	if d.bus == nil {
		return bus.Stats{}
	}
	return d.bus.Stats()
}

// self says what this server tells whoever operates it.
func (d *Desk) self() store.About {
	about := store.About{Version: version.Get().Version, Since: d.since, Name: d.o.Addr}
	if host, err := os.Hostname(); err == nil {
		about.Name = host + " " + d.o.Addr
	}
	switch {
	case d.bus == nil:
	case d.bus.Up():
		about.Bus = "up"
	default:
		about.Bus = "down"
	}
	return about
}
