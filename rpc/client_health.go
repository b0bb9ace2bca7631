package rpc

import (
	"errors"
	"time"
)

// attend waits until a connection takes no more calls. Meanwhile it asks the server how it is, if the client shall; one connection to it is enough.
func (l *link) attend(w *wire) {
	var tick <-chan time.Time
	if every := l.client.o.Health; every > 0 && l.peer.links[0] == l {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
		l.askHealth()
	}
	for {
		select {
		case <-w.away:
			return
		case <-l.peer.ctx.Done():
			return
		case <-tick:
			l.askHealth()
		}
	}
}

// askHealth asks the server of an address how it is. No answer says nothing, and neither does a server that does not know the service.
func (l *link) askHealth() {
	cl := l.client
	var resp HealthResponse
	o := callOptions{timeout: min(cl.o.Health, DefaultTimeout), codec: CodecJSON, wait: waitForNothing, only: l.peer}
	err := cl.invoke(l.peer.ctx, HealthKey, "Check", &HealthRequest{Service: cl.o.HealthService}, &resp, o)
	switch {
	case err == nil:
		l.peer.node.SetHealthy(resp.Status == Serving)
	case errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrConnection):
		l.peer.node.SetHealthy(false)
	case errors.Is(err, ErrNotFound):
		l.peer.node.SetHealthy(true)
	}
}
