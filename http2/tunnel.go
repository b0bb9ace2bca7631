package http2

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// tunnelSteps is how many steps of a tunnel's decoder run before the loop's other work has its turn.
const tunnelSteps = 64

// tunnel is a stream after an extended CONNECT (RFC 8441) that its http.Handler has given to a handler on the loop. It
// implements httpserve.Tunnel. What waits to be sent is in the stream's outgoing, which guards it.
type tunnel struct {
	st     *stream
	h      httpserve.TunnelHandler
	start  eddy.Signal
	ends   atomic.Pointer[eddy.CloseError] // why; input is ignored once it is set
	cut    atomic.Bool                     // the end does not wait for what is queued
	paused atomic.Bool                     // by PauseRead

	// Loop only.
	in        []byte // not decoded yet
	prepaid   int    // bytes of in that the client's window has got back
	inputOver bool   // the client sends no more
	toldOver  bool
	toldFull  bool
	later     bool        // decoding goes on in a later iteration
	failed    bool        // the handler has panicked
	lingers   *eddy.Timer // runs while only the client's end is awaited
}

// tunnelLinger is how long the client may take to end its side after ours. Then the stream is reset.
const tunnelLinger = 2 * time.Second

var errTunnelFailed = errors.New("http2: the handler of a tunnel has panicked")

// Tunnel implements httpserve.Tunneler.
func (w *response) Tunnel(header http.Header, install func(httpserve.Tunnel) httpserve.TunnelHandler) error {
	ex := w.ex
	st, f := ex.st, ex.st.sc.f
	switch {
	case ex.req.Header[":protocol"] == nil || ex.body == nil:
		return fmt.Errorf("http2: a tunnel for a request without :protocol, or whose client sends nothing: %w", http.ErrNotSupported)
	case w.status != 0:
		return errors.New("http2: a tunnel after the response has begun")
	case !st.out.take(handler):
		return st.out.failure()
	}
	w.status, w.tunnels, w.err = http.StatusOK, true, http.ErrHijacked
	f.countStatus(http.StatusOK)
	h := f.newFields()
	h.list = append(h.list[:0], hpack.HeaderField{Name: ":status", Value: statusText(http.StatusOK)}, hpack.HeaderField{Name: "date", Value: st.sc.dateText()})
	for name, values := range header {
		for _, v := range values {
			w.field(h, name, v)
		}
	}
	st.out.head(h)
	t, done := &tunnel{st: st}, make(chan error, 1)
	t.start.Init(st.sc.conn, func() { done <- t.begin(install) })
	if err := t.start.Raise(); err != nil {
		return err
	}
	return <-done
}

// begin gives the stream to the handler of the tunnel. Loop only.
func (t *tunnel) begin(install func(httpserve.Tunnel) httpserve.TunnelHandler) error {
	st, sc := t.st, t.st.sc
	if st.gone {
		return st.out.failure()
	}
	marks := sc.conn.Watermarks()
	st.out.mu.Lock()
	st.out.bound(marks.High, marks.Low)
	st.out.mu.Unlock()
	t.h = install(t)
	st.tunnel = t
	sc.f.stats.tunnels.Add(1)
	t.prepaid, _ = st.body.Buffered()
	t.in = make([]byte, t.prepaid)
	_, _ = st.body.Pipe.Read(t.in) // what is buffered is read at once
	t.inputOver = st.recvEnd
	sc.post(st)
	if t.guard(t.h.Open); t.failed {
		return errTunnelFailed
	}
	if sc.draining {
		t.drain()
	}
	return nil
}

// take takes the bytes of a DATA frame.
func (t *tunnel) take(data []byte, f frame) *ConnError {
	sc, st := t.st.sc, t.st
	if len(t.in) > 0 {
		t.in = append(t.in, data...)
		t.decodeKept()
	} else if rest := data[t.decode(data):]; len(rest) > 0 && !st.gone {
		t.in = append(t.in, rest...)
		sc.keep(st, len(rest))
	}
	switch {
	case st.gone:
		return nil
	case f.has(flagEndStream):
		return sc.bodyEnd(st, nil)
	}
	sc.padded(st, f.length-len(data))
	return nil
}

// inputEnds notes that the client sends no more.
func (t *tunnel) inputEnds() {
	if t.st.sentEnd {
		t.st.sc.close(t.st, errReturned)
		return
	}
	t.inputOver = true
	t.tellOver()
}

// linger follows our end of the stream. It gives the client time for its own: some take a reset for a failure, even behind the
// last byte.
func (t *tunnel) linger() {
	sc, st := t.st.sc, t.st
	timer, err := sc.ctx.After(tunnelLinger, func() {
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeNo, Text: "the client has not ended its side"})
	})
	if err == nil { // an error means that the connection is ending
		t.lingers = timer
	}
}

// tellOver tells the handler that the client sends no more, behind what it has sent.
func (t *tunnel) tellOver() {
	if t.inputOver && !t.toldOver && !t.held() {
		t.toldOver = true
		t.guard(t.h.InputClosed)
	}
}

// held reports whether nothing may be decoded now.
func (t *tunnel) held() bool { return t.later || t.toldFull || t.paused.Load() }

// decode decodes what it can of view, and returns how many bytes that was.
func (t *tunnel) decode(view []byte) (n int) {
	t.guard(func() {
		for steps := 0; n < len(view) && !t.held() && t.Writable(); steps++ { // news follow when it is writable again
			if t.ends.Load() != nil {
				n = len(view)
				return
			}
			if steps == tunnelSteps {
				t.decodeLater()
				return
			}
			k := t.h.Decode(view[n:])
			if n += k; k == 0 {
				return
			}
		}
	})
	free := min(n, t.prepaid)
	t.prepaid -= free
	if !t.st.gone {
		t.st.Took(n - free)
	}
	return n
}

// decodeLater lets decoding go on in a later iteration.
func (t *tunnel) decodeLater() {
	_, err := t.st.sc.ctx.After(0, func() {
		t.later = false
		t.decodeKept()
	})
	t.later = err == nil // an error means that the connection is ending
}

// decodeKept decodes what was kept. An idle tunnel keeps no memory for it.
func (t *tunnel) decodeKept() {
	if t.st.gone {
		return
	}
	n := t.decode(t.in)
	if t.st.gone { // so is what was kept
		return
	}
	if t.in = append(t.in[:0], t.in[n:]...); len(t.in) == 0 {
		t.in = nil
	}
	t.st.sc.keep(t.st, len(t.in)-t.st.kept)
	t.tellOver()
}

// news follows a post: of writes, of a resume or of a close. Loop only.
func (t *tunnel) news() {
	if t.st.gone {
		return
	}
	if end := t.ends.Load(); end != nil && t.cut.Load() {
		t.st.sc.abort(t.st, &StreamError{Stream: t.st.id, Code: CodeCancel, Text: end.Error()})
		return
	}
	o := &t.st.out
	o.mu.Lock()
	full := o.full
	o.mu.Unlock()
	if full != t.toldFull {
		t.toldFull = full
		t.guard(func() { t.h.Writability(!full) })
	}
	t.decodeKept()
}

// drain tells the handler that the server, or the connection, ends.
func (t *tunnel) drain() { t.guard(t.h.Drain) }

// closed tells the handler that the stream has ended, because of err.
func (t *tunnel) closed(err error) {
	if end := t.st.sc.conn.CloseError(); end != nil {
		t.ends.CompareAndSwap(nil, end)
	}
	t.ends.CompareAndSwap(nil, &eddy.CloseError{Reason: eddy.ClosePeerClosed, Err: err})
	if t.in = nil; t.lingers != nil {
		t.lingers.Stop()
	}
	t.guard(t.h.Closed)
}

// guard calls f, which calls the handler. A panic ends the tunnel only. The loop reports it, as it does for a function that
// belongs to no connection.
func (t *tunnel) guard(f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		report := fmt.Sprintf("http2: a handler of a tunnel: %v\n%s", v, debug.Stack())
		if t.st.sc.conn.Loop().Post(func() { panic(report) }) != nil {
			panic(report) // it ends the connection, rather than to be silent
		}
		if t.failed = true; !t.st.gone {
			t.fail()
		}
	}()
	f()
}

// fail lets the handler have its last word after a panic, unless that panics, too.
func (t *tunnel) fail() {
	defer func() {
		_ = recover() // the first panic is reported
		t.CloseAfterFlush(eddy.CloseInternalError)
	}()
	t.h.Failed()
}

// Conn implements httpserve.Tunnel.
func (t *tunnel) Conn() *eddy.Conn { return t.st.sc.conn }

// Context implements httpserve.Tunnel.
func (t *tunnel) Context() *eddy.Context { return t.st.sc.ctx }

// Post implements httpserve.Tunnel.
func (t *tunnel) Post(f func()) error { return t.st.sc.conn.Post(f) }

// Begin and End implement httpserve.Tunnel. An open stream is in flight anyway.
func (t *tunnel) Begin() {}

// End implements httpserve.Tunnel.
func (t *tunnel) End() {}

// PauseRead implements httpserve.Tunnel.
func (t *tunnel) PauseRead() { t.paused.Store(true) }

// ResumeRead implements httpserve.Tunnel.
func (t *tunnel) ResumeRead() {
	t.paused.Store(false)
	t.st.sc.post(t.st)
}

// CloseError implements httpserve.Tunnel.
func (t *tunnel) CloseError() *eddy.CloseError { return t.ends.Load() }

// CloseWith implements httpserve.Tunnel.
func (t *tunnel) CloseWith(reason eddy.CloseReason, err error) {
	t.ends.CompareAndSwap(nil, &eddy.CloseError{Reason: reason, Err: err})
	t.cut.Store(true)
	t.st.sc.post(t.st)
}

// CloseAfterFlush implements httpserve.Tunnel.
func (t *tunnel) CloseAfterFlush(reason eddy.CloseReason) {
	t.ends.CompareAndSwap(nil, &eddy.CloseError{Reason: reason})
	t.st.out.end(nil, nil, nil)
	t.st.sc.post(t.st)
}
