package desk

import (
	"context"
	"net"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/desk/frames"
	"github.com/go-eddy/eddy/desk/hub"
)

// startNative listens on Options.Frames.
func (d *Desk) startNative() error {
	if d.o.Frames == "" {
		return nil
	}
	a := eddy.Admission{Tenant: d.front.Tenant, MaxPerTenant: d.o.ConnsPerIP}
	if d.o.Layers == nil {
		a.OnLimit, a.Busy = eddy.DecisionBusy, frame.Refuse
	}
	server := &eddy.Server{
		Loops: d.o.Loops, Poller: d.o.Poller, MaxConns: d.o.MaxConns, Admission: a, KeepCloses: d.o.KeepCloses, MemoryBudget: d.o.MemoryBudget, Logger: d.o.Logger,
		FlushTimeout: d.o.patience, LingerTimeout: d.o.patience,
	}
	connect := func(c hub.Conn, p hub.Peer) frames.Session { return d.hub.Connect(c, p) }
	frames.Configure(server, frames.Options{Connect: connect, Enter: d.front.EnterFrames, Layers: d.o.Layers})
	if err := server.Listen("tcp", d.o.Frames); err != nil {
		return err
	}
	d.native = server
	return nil
}

// FramesAddr returns the address of native clients, nil if there is none.
func (d *Desk) FramesAddr() net.Addr {
	if d.native == nil {
		return nil
	}
	return d.native.Addr()
}

// endNative ends the port of native clients, whose sessions have ended.
func (d *Desk) endNative(ctx context.Context) (drain, closed error) {
	if d.native == nil {
		return nil, nil
	}
	if ctx.Err() == nil {
		_, drain = d.native.Shutdown(ctx)
	}
	return drain, d.native.Close()
}
