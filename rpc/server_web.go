package rpc

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/webwire"
)

// webPort serves the methods of a port by Connect and gRPC-Web. It is the http.Handler of both versions of HTTP.
type webPort struct {
	g       *grpcPort
	h1      *http1.Factory
	origins []string
}

// newWeb makes what the port's connections by HTTP/1.1 share.
func newWeb(g *grpcPort) *webPort {
	h := &webPort{g: g, origins: g.p.o.Origins}
	h.h1 = http1.NewHandler(h, g.p.pool, http1.Options{
		Route:         h.route,
		MaxBody:       math.MaxInt64, // each message has a limit
		HeaderTimeout: cmp.Or(g.p.o.ReadTimeout, frame.DefaultReadTimeout),
		BodyTimeout:   -1, // a stream may be silent
		IdleTimeout:   cmp.Or(g.p.o.IdleTimeout, frame.DefaultIdleTimeout),
		Trace:         g.p.o.Trace,
		TrustTrace:    g.p.o.TrustTrace,
	})
	return h
}

// find returns the method of a request, nil if there is none.
func (h *webPort) find(r *http.Request) *target {
	t, _ := h.g.find(r.URL.Path, r.Header.Get("Tri-Service-Group"), r.Header.Get("Tri-Service-Version"))
	return t
}

// route chooses where a request runs: on the pool of its method. Loop only.
func (h *webPort) route(r *http.Request) (to http1.Route) {
	t := h.find(r)
	if t == nil {
		to.Pool = h.g.p.srv.small
		return to
	}
	to.Pool = t.pool // nil is the port's
	if to.Class = t.reg.class; h.g.p.o.TrustClass {
		to.Class = t.classOf(r.Header.Get(limit.Field))
	}
	// A body that is too long is not awaited, so that the client is told by its own protocol.
	if longest := 4 * (h.g.limit + grpcwire.PrefixLen + 2) / 3; t.method.stream == nil && r.ContentLength <= int64(longest) {
		to.Await = longest // base64 is as much longer
		to.Within = cmp.Or(h.g.p.o.ReadTimeout, frame.DefaultReadTimeout)
	}
	return to
}

// ServeHTTP implements http.Handler.
func (h *webPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.allowOrigin(w.Header(), r) && r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c, x := &grpcCall{g: h.g, web: true}, &webExchange{w: w, r: r, kind: r.Header.Get("Content-Type"), limit: h.g.limit, body: webBody{from: r.Body}}
	head := grpcHead{method: http.MethodPost, path: r.URL.Path}
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		if t := h.find(r); t != nil && !t.method.safe {
			x.notAllowed("POST", "OPTIONS")
			return
		}
		c.get = true
		x.takeQuery(c, &head)
	default:
		x.notAllowed("POST", "GET", "OPTIONS")
		return
	}
	var ok bool
	if x.form, c.kind, ok = webwire.ParseContentType(x.kind); !ok || c.get && x.form != webwire.Unary {
		x.refuse("this port serves calls by gRPC, gRPC-Web and Connect: want one of their content types", http.StatusUnsupportedMediaType)
		return
	}
	for name, values := range r.Header {
		for _, v := range values {
			x.take(c, &head, strings.ToLower(name), v)
		}
	}
	c.refusal = c.admit(&head)
	defer c.Over()
	if head.missing && x.form == webwire.Unary {
		c.status = http.StatusNotFound
	}
	if c.refusal == nil {
		if why, status := x.unfit(c.target.method); status != 0 {
			x.refuse(why, status)
			return
		}
		c.zip = c.zip && x.takesGzip
	}
	x.serve(c)
}

// checkOrigins returns what of PortOptions.Origins no browser would ever say.
func checkOrigins(list []string) error {
	for _, origin := range list {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			return fmt.Errorf("PortOptions.Origins has %q: want https://host, https://host:port, or *", origin)
		}
	}
	return nil
}

// allowOrigin says to a browser that a page of another origin may read the answer, if PortOptions.Origins has that origin.
// The result is whether r comes from such a page.
func (h *webPort) allowOrigin(header http.Header, r *http.Request) bool {
	if len(h.origins) == 0 {
		return false
	}
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(h.origins, "*") && !slices.Contains(h.origins, origin) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "*")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", http.MethodPost)
		if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
			header.Set("Access-Control-Allow-Headers", names)
		}
		header.Set("Access-Control-Max-Age", "7200") // the longest that browsers have in common
	}
	return true
}
