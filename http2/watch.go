package http2

import (
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
)

// watch looks at the times of a connection's streams, as long as there is something to look at. The times of the connection
// itself are the engine's.
type watch struct {
	handler time.Duration // the server's HandlerTimeout, here of each stream; 0 = none
	every   time.Duration // between two looks
	armed   bool
	section time.Duration // when the header section that is under way began
}

// The least and the most time between two looks.
const (
	leastLook = 10 * time.Millisecond
	mostLook  = time.Second
)

func (w *watch) init(handler time.Duration, o *Options) {
	w.handler = handler
	w.every = mostLook
	for _, d := range []time.Duration{handler, o.HeaderTimeout, o.BodyTimeout, o.WriteTimeout} {
		if d > 0 {
			w.every = min(w.every, max(d/4, leastLook))
		}
	}
}

// arm makes the loop look again, unless it will already.
func (w *watch) arm(sc *serverConn) {
	if w.armed {
		return
	}
	w.armed = true
	_, _ = sc.ctx.After(w.every, func() { w.look(sc) }) // an error means that the connection is ending
}

// sectionFrom notes that a header section goes on in further frames.
func (w *watch) sectionFrom(sc *serverConn) {
	w.section = sc.ctx.Now()
	w.arm(sc)
}

// look ends what has taken too long.
func (w *watch) look(sc *serverConn) {
	w.armed = false
	if sc.state == stateOver {
		return
	}
	now := sc.ctx.Now()
	if limit := sc.f.opts.HeaderTimeout; sc.headers.open && limit > 0 {
		if now-w.section >= limit {
			sc.f.stats.timeouts.Add(1)
			err := connError(CodeProtocol, "a header section was not completed in time (limit %v)", limit)
			sc.state = stateOver
			sc.control(appendGoAway(nil, min(sc.lastID, sc.finalID), err.Code, err.Text))
			sc.ctx.CloseAfterFlush(eddy.CloseReadTimeout)
			return
		}
		w.arm(sc)
	}
	for st := range sc.inOrder() {
		if w.lookAt(sc, st, now) {
			w.arm(sc)
		}
	}
}

// lookAt ends a stream that has taken too long, and reports whether it must be looked at again.
func (w *watch) lookAt(sc *serverConn, st *stream, now time.Duration) (again bool) {
	if w.handler > 0 && !st.returned {
		if again = true; now-st.began >= w.handler {
			sc.late(st, http.StatusServiceUnavailable, errLate.Error(), CodeCancel)
			return false
		}
	}
	if limit := sc.f.opts.WriteTimeout; limit > 0 && st.stuck != 0 {
		if again = true; now-st.stuck >= limit {
			sc.f.stats.timeouts.Add(1)
			sc.abort(st, &StreamError{Stream: st.id, Code: CodeCancel, Text: errStalled.Error()})
			return false
		}
	}
	limit, silent := st.silence(now, sc.f.opts.BodyTimeout)
	if limit > 0 && silent >= limit {
		sc.late(st, http.StatusRequestTimeout, errBody.Error(), CodeCancel)
		return false
	}
	return again || limit > 0
}

// silence returns how long the client has sent nothing of a body that the handler waits for, and how long it may. limit is 0
// when the time does not run for this request.
func (st *stream) silence(now, most time.Duration) (limit, silent time.Duration) {
	b := st.body
	if b == nil || st.recvEnd || st.out.begun() {
		return 0, 0
	}
	if b.await && b.within > 0 && (most == 0 || b.within < most) {
		return b.within, now - st.began
	}
	if !b.await && !b.waits.Load() { // it is the handler who holds the client back
		b.silent = 0
		return most, 0
	}
	if b.silent == 0 {
		b.silent = now
	}
	return most, now - b.silent
}

// late answers a request that has taken too long.
func (sc *serverConn) late(st *stream, status int, why string, code ErrCode) {
	sc.f.stats.timeouts.Add(1)
	st.ctx.late.Store(true)
	if st.out.begun() {
		sc.abort(st, &StreamError{Stream: st.id, Code: code, Text: why})
		return
	}
	sc.answer(st, status, why)
}
