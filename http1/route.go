package http1

import (
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
)

// Route is the answer of Options.Route for one request. The zero value stands for the pool of NewHandler and a streamed body.
type Route struct {
	// Pool runs the handler. When the pool is full the request is answered 503; requests of other pools are not affected.
	// The server ends a pool only if Server.Pools has it. nil = the pool of NewHandler.
	Pool *executor.Pool

	// Class says how much the request matters to an adaptive pool, see executor.Adaptive. Believe what a client says of itself only where clients are trusted. The
	// zero value is limit.Critical.
	Class limit.Class

	// Await is the longest body in bytes that is read before the handler starts. A client that stalls then holds its
	// connection, for BodyTimeout at most, and no worker. The bytes count as input in Server.MemoryBudget until the request
	// ends. A longer body is answered 413, decided from Content-Length or the chunk size before its bytes are read; MaxBody
	// holds too. Expect: 100-continue is answered at once. Server.HandlerTimeout includes the wait.
	// 0 = the handler starts with the head and the body streams.
	Await int

	// Within is the time that an awaited body may take, if less than BodyTimeout. 0 = BodyTimeout alone.
	Within time.Duration
}

// awaitWithin answers 408 and ends the connection when the body takes longer than body.within. Loop only.
func (sc *serverConn) awaitWithin(body *awaited) error {
	var err error
	body.late, err = sc.ctx.After(body.within, func() {
		sc.abort(http.StatusRequestTimeout, "the request body did not arrive in time", errBodyTimeout)
		sc.f.stats.timeouts.Add(1)
		sc.ctx.CloseAfterFlush(eddy.CloseBodyTimeout)
	})
	return err
}

// route asks Options.Route about r and fills in the default pool.
func (f *Factory) route(r *http.Request) Route {
	var to Route
	if f.opts.Route != nil {
		to = f.opts.Route(r)
	}
	if to.Pool == nil {
		to.Pool = f.pool
	}
	return to
}
