package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/trace"
)

// Tracing records the requests of a server of HTTP.
type Tracing struct {
	Recorder *trace.Recorder
	Trust    bool   // the fields of clients
	Protocol string // in traces
}

// own finds the Context that a protocol's context embeds.
func (c *Context) own() *Context { return c }

// ContextOf returns the Context of a request, nil for one of another server.
func ContextOf(ctx context.Context) *Context {
	if c, ok := ctx.(interface{ own() *Context }); ok {
		return c.own()
	}
	return nil
}

// Begin begins the trace of a request that goes to a pool, when its body has come if it awaits that. Loop only.
func (t *Tracing) Begin(r *http.Request, pool string, awaits bool) {
	c := ContextOf(r.Context())
	from := t.Recorder.Receive(t.Trust, trace.FieldsOf(r.Header))
	if !t.Recorder.Sample(&from) {
		c.Trace = t.Recorder.Unsampled(from)
		return
	}
	c.Trace = t.Recorder.Begin(from, trace.About{
		Protocol: t.Protocol, Name: r.Method, Peer: c.Conn.RemoteAddr(), Waited: c.Conn.Loop().Behind(),
	})
	if !awaits {
		c.Trace.Enter(trace.QueueWait, pool)
	}
}

// Around returns a handler that notes when h begins and ends.
func (t *Tracing) Around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := ContextOf(r.Context())
		if c == nil || !c.Trace.Sampled() {
			h.ServeHTTP(w, r)
			return
		}
		err := errNoReturn
		c.Trace.Enter(trace.Handler, "")
		defer func() {
			c.Trace.Fail(err)
			c.Trace.Enter(trace.Hop, "")
		}()
		h.ServeHTTP(w, r)
		if r.Pattern != "" {
			c.Trace.Rename(nameOf(r))
		}
		err = statusError(w)
	})
}

var errNoReturn = errors.New("the handler panicked")

// nameOf returns the name of a request that a mux has matched. A path of the client's own could be anything.
func nameOf(r *http.Request) string {
	if strings.Contains(r.Pattern, " ") {
		return r.Pattern
	}
	return r.Method + " " + r.Pattern
}

// statusError returns the failure that an answer tells of, nil for none.
func statusError(w http.ResponseWriter) error {
	if s, ok := w.(interface{ Status() int }); ok && s.Status() >= http.StatusInternalServerError {
		return fmt.Errorf("status %d", s.Status())
	}
	return nil
}
