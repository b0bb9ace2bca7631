package desk

import (
	"context"
	"fmt"

	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/hub"
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

// busStats returns what the bus has counted, nothing without one.
func (d *Desk) busStats() bus.Stats {
	if d.bus == nil {
		return bus.Stats{}
	}
	return d.bus.Stats()
}
