package http1

import (
	"context"
	"net/http"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// Wait calls f and lets other requests have the handler's worker until f returns. Use Wait in a handler that waits for
// something of its own before it answers, such as the event of a long poll. Where thousands wait, Suspend costs less. ctx is
// the request's context or derived from it:
//
//	http1.Wait(r.Context(), func() {
//		select {
//		case e = <-events:
//		case <-r.Context().Done():
//		}
//	})
//
// f runs on the calling goroutine. Afterwards Wait waits up to 100 ms for a worker's place and then returns with or without
// one. A Write that blocks, a body that has not come and a stream (from the first Flush on) need no Wait.
// executor.Options.Parked bounds the waiting handlers. With another context, or when the request is over, Wait only calls f.
// Any goroutine but a loop's.
func Wait(ctx context.Context, f func()) { httpserve.Wait(ctx, f) }

// Place implements executor.Placed.
func (ex *exchange) Place() *executor.Place { return &ex.place }

const busyText = "the server is busy" // to a client whose request does not begin because of a full pool

// tooMany answers 503, on the request's worker, to a request that must not begin because too many are parked.
func (ex *exchange) tooMany() {
	ex.f.stats.busy.Add(1)
	ex.w.Header().Set("Retry-After", httpserve.RetryAfter(ex.to.Pool))
	http.Error(&ex.w, busyText, http.StatusServiceUnavailable)
}

// owner returns the client network that the connection's requests count for, nil behind a Unix socket.
func (sc *serverConn) owner() any {
	if sc.client == nil {
		if n := sc.conn.Network(); n.IsValid() {
			sc.client = n
		}
	}
	return sc.client
}
