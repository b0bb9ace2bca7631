package http1

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
)

var (
	errBodyTimeout    = errors.New("http1: the request body did not arrive in time")
	errHandlerTimeout = errors.New("http1: the request was not answered in time")
)

// limits caches the deadlines of HTTP connections: own is base with those of
// Options in place of the server's.
type limits struct{ base, own eddy.Deadlines }

// limitsOver returns base with the deadlines of Options put in. The connections
// of a server share one value.
func (f *Factory) limitsOver(base eddy.Deadlines) *eddy.Deadlines {
	if l := f.limits.Load(); l != nil && l.base == base {
		return &l.own
	}
	l := &limits{base: base, own: base}
	l.own.Read = max(f.opts.HeaderTimeout, 0)
	l.own.Body = max(f.opts.BodyTimeout, 0)
	l.own.Idle = max(f.opts.IdleTimeout, 0)
	l.own.Write = max(f.opts.WriteTimeout, 0)
	f.limits.Store(l)
	return &l.own
}

// readingBody starts the deadline of the body in hand, unless it runs already.
func (sc *serverConn) readingBody() { sc.conn.SetPhase(eddy.PhaseReadingBody) }

// readBody ends the deadline that readingBody started.
func (sc *serverConn) readBody() { sc.conn.SetPhase(eddy.PhaseReadingHeader) }

// HandleError implements eddy.ErrorHandler and answers a client whose deadline
// has passed, unless an answer has begun.
func (d *decoder) HandleError(ctx *eddy.Context, err error) error {
	var late *eddy.DeadlineError
	sc, ok := ctx.State().(*serverConn)
	if !ok || sc.state == stateOver || !errors.As(err, &late) {
		return err
	}
	switch {
	case late.Reason == eddy.CloseReadTimeout && sc.state == stateHead:
		sc.state = stateOver
		sc.dropHead()
		sc.write(sc.f.appendPlain(nil, plain{status: http.StatusRequestTimeout, text: "the request header did not arrive in time", closing: true}))
	case late.Reason == eddy.CloseBodyTimeout && sc.ex != nil:
		sc.abort(http.StatusRequestTimeout, "the request body did not arrive in time", errBodyTimeout)
	case late.Reason == eddy.CloseHandlerTimeout && sc.ex != nil:
		sc.abort(http.StatusServiceUnavailable, "the request was not answered in time", errHandlerTimeout)
	default:
		return err
	}
	sc.f.stats.timeouts.Add(1)
	return err
}

// requestContext is the request's context. It is cancelled when the connection ends, when its BaseContext ends and when the
// handler returns.
type requestContext struct {
	httpserve.Context
	request eddy.Request
}

// Deadline implements context.Context and returns the server's handler
// deadline, or that of the connection's BaseContext if that is earlier.
func (c *requestContext) Deadline() (time.Time, bool) { return c.request.Deadline() }

// Err implements context.Context and returns context.DeadlineExceeded when the
// handler deadline has closed the connection.
func (c *requestContext) Err() error {
	err := c.Ended()
	if err == nil {
		return nil
	}
	if end := c.Conn.CloseError(); end != nil && end.Reason == eddy.CloseHandlerTimeout {
		return context.DeadlineExceeded
	}
	return err
}
