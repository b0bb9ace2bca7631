package http1

import (
	"net/http"

	"github.com/go-eddy/eddy/internal/httpserve"
)

// trace puts Options.Trace around the routes and the handler of the factory.
func (f *Factory) trace() {
	t := &httpserve.Tracing{Recorder: f.opts.Trace, Trust: f.opts.TrustTrace, Protocol: "http1"}
	f.handler = t.Around(f.handler)
	below := f.opts.Route
	f.opts.Route = func(r *http.Request) (to Route) {
		if below != nil {
			to = below(r)
		}
		if to.Pool == nil {
			to.Pool = f.pool
		}
		t.Begin(r, to.Pool.Name(), to.Await > 0 && r.ContentLength != 0)
		return to
	}
}

// Status returns the status of the response, 0 before WriteHeader. Traces ask for it.
func (w *response) Status() int { return w.status }
