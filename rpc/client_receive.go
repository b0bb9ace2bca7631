package rpc

import (
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/internal/pending"
)

// HandleEvent implements eddy.EventHandler.
func (w *wire) HandleEvent(ctx *eddy.Context, ev any) error {
	if o, ok := ev.(linkOpened); ok {
		w.told = o.link
	}
	ctx.FireEvent(ev)
	return nil
}

// HandleRead implements eddy.ReadHandler: it copies the body of a response and wakes the caller.
func (w *wire) HandleRead(_ *eddy.Context, msg any) error {
	f, ok := msg.(*frame.Frame)
	if !ok {
		return fmt.Errorf("rpc: a %T where frames are expected", msg)
	}
	defer f.Release()
	w.pulse.heard = true
	if f.Status() != frame.StatusOK {
		if err := w.checkError(f); err != nil {
			return err
		}
	}
	switch {
	case f.ID == 0:
		return w.aboutConnection(f)
	case uint32(f.ID) == pending.PingSlot && f.Status() == frame.StatusOK:
		w.mu.Lock()
		w.proven = true
		w.mu.Unlock()
		return nil
	}
	return w.answered(f)
}

// checkError returns an error for a response that no correct server sends.
func (w *wire) checkError(f *frame.Frame) error {
	if _, known := statusErrors[f.Status()]; !known && f.Status() != frame.StatusGoAway {
		return violation("a response with status %d, which does not exist", uint8(f.Status()))
	}
	if e, ok := f.Err().(*frame.StatusError); !ok { //nolint:errorlint // returned bare
		return violation("%v", f.Err())
	} else if f.ID != 0 && e.Status == frame.StatusGoAway {
		return violation("GOAWAY for request %d: it is about the connection", f.ID)
	}
	return nil
}

func violation(format string, args ...any) error {
	return eddy.WithReason(eddy.CloseProtocolError, fmt.Errorf("rpc: the server sent "+format, args...))
}

// aboutConnection handles a frame with id 0, which is about the connection.
func (w *wire) aboutConnection(f *frame.Frame) error {
	e, ok := f.Err().(*frame.StatusError) //nolint:errorlint // returned bare
	if !ok {
		return violation("an OK for no request")
	}
	switch e.Status {
	case frame.StatusGoAway:
		w.goAway(e)
		return nil
	case frame.StatusBusy, frame.StatusUnavailable:
		w.link.hold(e.RetryAfter)
		return eddy.WithReason(eddy.CloseAdmissionRejected, e)
	}
	return eddy.WithReason(eddy.CloseProtocolError, e)
}

// answered ends the call that a response is for.
func (w *wire) answered(f *frame.Frame) error {
	w.mu.Lock()
	w.proven = true
	c, known := w.table.Get(f.ID)
	if c == nil {
		w.mu.Unlock()
		if !known {
			return violation("a response to request %#x, which was never made", f.ID)
		}
		w.client.late(w, f.ID, f.Status())
		return nil
	}
	if !c.sent.Load() {
		w.mu.Unlock()
		return violation("a response to request %#x, which it was not sent", f.ID)
	}
	w.free(f.ID)
	w.unlock()
	w.observe(c, outcomeOf(f.Status()))
	switch {
	case f.Status() == frame.StatusUnavailable && !c.claimed.Load():
		err, _ := f.Err().(*frame.StatusError) //nolint:errorlint // returned bare
		w.client.failOver(c, w, statusError(err, c.service.name, c.method))
		return nil
	case c.claim():
		w.flush.woken++
		c.respond(f)
	default:
		w.client.late(w, f.ID, f.Status())
	}
	c.release()
	if f.Status() == frame.StatusProtocolError {
		return eddy.WithReason(eddy.CloseProtocolError, f.Err())
	}
	return nil
}
