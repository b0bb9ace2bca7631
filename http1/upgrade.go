package http1

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-eddy/eddy"
)

// unwrapper is implemented by middleware that wraps a ResponseWriter; see
// http.ResponseController.
type unwrapper interface{ Unwrap() http.ResponseWriter }

var errUpgradePanic = errors.New("http1: the install function of an Upgrade panicked")

// Upgrade switches the connection of r to another protocol (RFC 9110 section
// 7.8). The answer is 101 Switching Protocols with the given header. Then, on
// the connection's loop, Upgrade takes the HTTP handlers out of the pipeline
// and calls install to add others. Bytes that the client sent behind its
// request go to the new decoder. Upgrade adds "Connection: Upgrade" when header
// lacks it.
//
// Call Upgrade inside ServeHTTP, before anything was written, with a writer of
// this package or one whose Unwrap leads to it. Upgrade returns after install
// has run. If install fails, Upgrade returns the error and the connection
// closes. Afterwards writes to w return http.ErrHijacked.
//
// An error that is http.ErrNotSupported means that w is of another package, or
// that r is of HTTP/1.0 or has a body. Nothing was answered then and HTTP goes
// on, so the handler should say why.
func Upgrade(w http.ResponseWriter, r *http.Request, header http.Header, install func(p *eddy.Pipeline) error) error {
	rw, err := responseOf(w)
	if err != nil {
		return err
	}
	switch {
	case rw.hijacked:
		return http.ErrHijacked
	case rw.status != 0:
		return errors.New("http1: Upgrade after the response has begun")
	case !r.ProtoAtLeast(1, 1):
		return fmt.Errorf("http1: Upgrade of a request of %s: %w", r.Proto, http.ErrNotSupported)
	case rw.ex.body != nil:
		return fmt.Errorf("http1: Upgrade of a request with a body: %w", http.ErrNotSupported)
	}
	return rw.ex.upgrade(header, install)
}

func responseOf(w http.ResponseWriter) (*response, error) {
	for {
		switch v := w.(type) {
		case *response:
			return v, nil
		case unwrapper:
			w = v.Unwrap()
		default:
			return nil, fmt.Errorf("http1: Upgrade needs a ResponseWriter of this package, got %T: %w", w, http.ErrNotSupported)
		}
	}
}

// upgrade answers 101 and hands the connection over, on the handler's
// goroutine, which waits for the loop.
func (ex *exchange) upgrade(header http.Header, install func(p *eddy.Pipeline) error) error {
	if !ex.take(handler) {
		return errAnswered
	}
	if ex.ctx.Trace != nil {
		ex.conn.SetTrace(ex.ctx.Trace.Context())
	}
	return ex.handOver(ex.switching(header), install)
}

// handOver sends msg, gives the connection to the handlers that install adds,
// and waits for the loop to have done so.
func (ex *exchange) handOver(msg []byte, install func(p *eddy.Pipeline) error) error {
	ex.w.hijacked = true
	done := make(chan error, 1)
	turn := new(eddy.Signal)
	turn.Init(ex.conn, func() {
		err := errUpgradePanic // stays if install panics; the loop handles the panic
		defer func() { done <- err }()
		err = ex.sc.switchProtocol(ex, msg, install)
	})
	if err := turn.Raise(); err != nil {
		return err
	}
	return <-done
}

// switching builds the 101 response.
func (ex *exchange) switching(header http.Header) []byte {
	ex.f.countStatus(http.StatusSwitchingProtocols)
	b := appendStatus(nil, http.StatusSwitchingProtocols)
	w := response{ex: ex, header: header}
	b = appendConnection(w.fields(b), false, true, true)
	return append(b, "\r\n"...)
}

// switchProtocol sends msg and replaces the HTTP handlers. Loop only.
func (sc *serverConn) switchProtocol(ex *exchange, msg []byte, install func(p *eddy.Pipeline) error) error {
	if sc.ex != ex || sc.state == stateOver {
		if ce := sc.conn.CloseError(); ce != nil {
			return ce
		}
		return eddy.ErrClosed
	}
	sc.f.stats.upgrades.Add(1)
	ex.body.unkeep()
	ex.dropChain()
	sc.ex = nil
	sc.state = stateOver
	_ = sc.conn.SetDeadlines(nil) // an error means that the connection is ending
	if len(msg) > 0 {
		sc.write(msg)
	}
	// The request ends only after install has run, because a draining connection with nothing in flight ends.
	defer func() {
		ex.over()
		sc.conn.ResumeRead()
	}()
	err := sc.replaceBy(install)
	if err != nil {
		sc.conn.CloseWith(eddy.CloseInternalError, err)
	}
	return err
}

func (sc *serverConn) replaceBy(install func(p *eddy.Pipeline) error) error {
	p := sc.ctx.Pipeline()
	if err := p.Remove(dispatcherName); err != nil {
		return err
	}
	if err := p.Remove(decoderName); err != nil {
		return err
	}
	return install(p)
}
