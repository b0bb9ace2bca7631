package http1

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
)

var errIdle = errors.New("http1: no request came for the idle timeout")

// armDeadline starts the deadline of an incomplete head or body, unless it runs
// already or is switched off.
func (sc *serverConn) armDeadline(d time.Duration, late func()) error {
	if sc.deadline != nil || d < 0 {
		return nil
	}
	t, err := sc.ctx.After(d, late)
	sc.deadline = t
	return err
}

func (sc *serverConn) stopDeadline() {
	if sc.deadline != nil {
		sc.deadline.Stop()
		sc.deadline = nil
	}
}

// headLate ends a connection whose request head took too long.
func (sc *serverConn) headLate() {
	sc.deadline = nil
	if sc.state != stateHead {
		return
	}
	sc.state = stateOver
	sc.dropHead()
	sc.f.stats.timeouts.Add(1)
	sc.write(sc.f.appendPlain(nil, http.StatusRequestTimeout, "the request header did not arrive in time", "", true))
	sc.ctx.FireError(eddy.WithReason(eddy.CloseReadTimeout, errHeaderTimeout))
}

// armBody starts the deadline of a body, counted from now.
func (sc *serverConn) armBody() error {
	if sc.deadline == nil && sc.f.opts.BodyTimeout >= 0 {
		sc.ex.bodySince = sc.f.clock()
	}
	return sc.armDeadline(sc.f.opts.BodyTimeout, sc.bodyLate)
}

// bodyLate ends a connection whose body took too long. The time in which the
// handler held the client back is given to it on top.
func (sc *serverConn) bodyLate() {
	sc.deadline = nil
	if sc.state != stateBody {
		return
	}
	ex := sc.ex
	limit := sc.f.opts.BodyTimeout
	stalled, held := ex.body.stalled()
	rest := ex.bodySince + limit + stalled - sc.f.clock()
	if held {
		rest = limit
	}
	if rest > 0 {
		// An error means that the connection has ended.
		_ = sc.armDeadline(rest, sc.bodyLate)
		return
	}
	sc.f.stats.timeouts.Add(1)
	sc.abort(http.StatusRequestTimeout, "the request body did not arrive in time", errBodyTimeout)
	sc.ctx.FireError(eddy.WithReason(eddy.CloseBodyTimeout, errBodyTimeout))
}

// armIdle starts the idle timer. It is armed again only when it fires: a request
// costs it nothing.
func (sc *serverConn) armIdle(d time.Duration) error {
	if sc.f.opts.IdleTimeout < 0 {
		return nil
	}
	t, err := sc.ctx.After(d, sc.idleLate)
	sc.idleTimer = t
	return err
}

func (sc *serverConn) stopIdle() {
	if sc.idleTimer != nil {
		sc.idleTimer.Stop()
		sc.idleTimer = nil
	}
}

// idleLate closes a connection that has waited too long for its next request, or
// for the client to take the last response.
func (sc *serverConn) idleLate() {
	sc.idleTimer = nil
	limit := sc.f.opts.IdleTimeout
	rest := limit
	if sc.ex == nil && sc.head == nil && sc.deadline == nil {
		rest = sc.idleSince + limit - sc.f.clock()
	}
	switch {
	case sc.state == stateOver:
	case rest > 0:
		_ = sc.armIdle(rest) // an error means that the connection has ended
	case sc.conn.QueuedBytes() > 0:
		sc.conn.Close(eddy.CloseWriteTimeout)
	default:
		sc.ctx.FireError(eddy.WithReason(eddy.CloseIdleTimeout, errIdle))
	}
}
