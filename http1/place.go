package http1

import (
	"context"
	"net/http"

	"github.com/go-eddy/eddy/executor"
)

// placeKey is the key of the request's place in its pool among the values of its context.
type placeKey struct{}

// Wait calls f and lets other requests have the handler's worker until f returns. It is for a handler that waits for
// something of its own before it answers, such as the event of a long poll; ctx is the request's context or made of it:
//
//	http1.Wait(r.Context(), func() {
//		select {
//		case e = <-events:
//		case <-r.Context().Done():
//		}
//	})
//
// f runs on the calling goroutine. Then Wait takes a worker's place again, for which it waits 100 ms at most. Waits for the
// client (a Write that blocks, a body that has not come) and streams (from the first Flush on) need no Wait. Those that
// wait are bounded by executor.Options.Parked. With another context, or when the request is over, Wait only calls f. Any
// goroutine but a loop's.
func Wait(ctx context.Context, f func()) {
	if place, ok := ctx.Value(placeKey{}).(*executor.Place); ok {
		place.Leave()
		defer place.Return()
	}
	f()
}

// Place implements executor.Placed.
func (ex *exchange) Place() *executor.Place { return &ex.place }

// What a client is told whose request is not begun.
const (
	busyText   = "the server is busy"
	retryAfter = "1"
)

// tooMany answers a request that must not begin because of the parked ones, on its worker.
func (ex *exchange) tooMany() {
	ex.f.stats.busy.Add(1)
	ex.w.Header().Set("Retry-After", retryAfter)
	http.Error(&ex.w, busyText, http.StatusServiceUnavailable)
}

// owner returns the client network for which the connection's requests count, nil behind a Unix socket.
func (sc *serverConn) owner() any {
	if sc.client == nil {
		if n := sc.conn.Network(); n.IsValid() {
			sc.client = n
		}
	}
	return sc.client
}
