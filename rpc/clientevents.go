package rpc

import "github.com/go-eddy/eddy"

// startEvents makes the notifier of the Listener. The callback pool must exist.
func (cl *Client) startEvents() (err error) {
	cl.events, err = newNotifier(eventOptions{
		name: "client", side: ClientSide, dispatcher: cl.o.Dispatcher, listener: cl.o.Listener, shared: cl.consumer.pool.pool,
		connectQueue: cl.o.ConnectQueue, connectWarning: cl.o.ConnectWarning, maxPayload: cl.o.MaxPayload, logger: cl.o.Logger,
	})
	return err
}

// HandleEvent implements eddy.EventHandler.
func (w *wire) HandleEvent(ctx *eddy.Context, ev any) error {
	if o, ok := ev.(linkOpened); ok {
		w.told = o.link
	}
	ctx.FireEvent(ev)
	return nil
}
