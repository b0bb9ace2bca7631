package http1

import (
	"errors"
	"net/http"
	"sync/atomic"
)

// Suspend lets the handler return before the answer exists. The request then holds its connection, and neither a worker nor
// a goroutine, until Resume. Use it for many clients that wait for long, such as those of a long poll:
//
//	s, err := http1.Suspend(w)
//	if err != nil {
//		http.Error(w, "this server cannot wait", http.StatusNotImplemented)
//		return
//	}
//	subscribe(func(event []byte) { _ = s.Resume(http.StatusOK, event) })
//
// Set the header first and read the body, because the handler must not use w or the body afterwards. The request's context
// stays alive; context.AfterFunc tells when the client has gone. The deadlines of a running handler hold, and a draining
// server waits for the answer. One connection has one suspended request at most, so the limits of connections bound them.
//
// Call Suspend inside ServeHTTP, before anything was written, with a writer of this package or one whose Unwrap leads to it.
// An error that is http.ErrNotSupported means that w is of another package.
func Suspend(w http.ResponseWriter) (*Suspended, error) {
	rw, err := responseOf(w)
	switch {
	case err != nil:
		return nil, err
	case rw.hijacked:
		return nil, http.ErrHijacked
	case rw.status != 0:
		return nil, errors.New("http1: Suspend after the response has begun")
	case rw.ex.suspended:
		return nil, errors.New("http1: Suspend of a request that is suspended")
	}
	rw.ex.suspended = true
	return &Suspended{ex: rw.ex}, nil
}

// Suspended is a request whose handler has returned without an answer; see Suspend.
type Suspended struct {
	ex      *exchange
	resumed atomic.Bool
}

var errResumed = errors.New("http1: the request was resumed before")

// Resume answers the request, once, with the header that the handler has set. The status is 200 to 999. The answer is queued
// whole and beyond the connection's watermarks, so keep body small. It is copied. Resume never blocks, and any goroutine may
// call it. An error means that the answer was not sent, because the connection or the time of the request is over.
func (s *Suspended) Resume(status int, body []byte) error {
	if !s.resumed.CompareAndSwap(false, true) {
		return errResumed
	}
	ex, w := s.ex, &s.ex.w
	w.WriteHeader(status)
	if bodyAllowed(w.status) {
		w.bufs.body = append(w.bufs.body, body...)
		w.written = int64(len(body))
	}
	w.end()
	err := w.err
	ex.ctx.Cancel()
	ex.finish()
	return err
}
