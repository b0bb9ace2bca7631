package front

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	widgetAPI     = "/api/v1/widget/" // what pages of a site's own origins may call
	originsFresh  = 5 * time.Second   // how old the list of all sites' origins may be
	preflightTime = "600"             // seconds that a browser may keep the answer to a preflight
)

// origins is a short-lived list of the origins of all sites, so that a flood of foreign origins seldom reaches the
// database.
type origins struct {
	mu      sync.Mutex
	at      time.Time
	loading bool
	known   map[string]bool
}

// sameOrigin reports whether a browser's Origin is this server itself. A request without an Origin comes from a program.
// Without a token or ticket it gets no further than hello, because cookies alone never authenticate a WebSocket.
func (f *Front) sameOrigin(r *http.Request) bool {
	list := r.Header.Values("Origin")
	if len(list) != 1 {
		return len(list) == 0
	}
	u, err := url.Parse(list[0])
	if err != nil || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return u.Scheme == "https" || (u.Scheme == "http" && !f.o.HTTPS)
}

// siteOrigin returns the Origin of a request that is not our own, if some site allows it. Whether the site of the
// request allows it is checked later, by allows.
func (f *Front) siteOrigin(r *http.Request) (origin string, ok bool) {
	list := r.Header.Values("Origin")
	if len(list) != 1 || list[0] == "" || len(list[0]) > 256 {
		return "", false
	}
	origin = strings.ToLower(list[0])
	return origin, f.anySite(r.Context(), origin)
}

// anySite reports whether a site allows an origin, by a list that is read again when it is old. Only one request reads;
// others use the old list meanwhile. A database that does not answer thus delays only one request.
func (f *Front) anySite(ctx context.Context, origin string) bool {
	o := &f.origins
	o.mu.Lock()
	old := !o.loading && f.o.Now().Sub(o.at) > originsFresh
	o.loading = o.loading || old
	o.mu.Unlock()
	if old {
		f.readOrigins(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[origin]
}

func (f *Front) readOrigins(ctx context.Context) {
	o := &f.origins
	ctx, cancel := context.WithTimeout(ctx, f.within(requestTimeout))
	defer cancel()
	sites, err := f.store.Hot().Sites(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.loading = false
	if err != nil {
		f.o.Logger.Warn("desk: the origins of the sites cannot be read", "err", err)
		return
	}
	o.at, o.known = f.o.Now(), make(map[string]bool)
	for i := range sites {
		for _, allowed := range sites[i].Settings.Origins {
			o.known[strings.ToLower(allowed)] = true
		}
	}
}

// allows reports whether a site lets pages of an origin talk to it. "" is our own origin.
func allows(s *store.Site, origin string) bool {
	return origin == "" || slices.ContainsFunc(s.Settings.Origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

type originKey struct{}

// foreign returns the Origin of a request from a site's own page, "" for our pages and for programs.
func foreign(r *http.Request) string {
	origin, _ := r.Context().Value(originKey{}).(string)
	return origin
}

// guarded refuses requests that change something and come from another site. Pages of the sites' origins may call the
// API of the widget and the long poll. They send no cookies, and get the headers that let them read the answer (Fetch, CORS
// protocol).
func (f *Front) guarded(next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { f.crossSite(w) }))
	protected := sameSite.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, widgetAPI) && !isPoll(r.URL.Path) || f.sameOrigin(r) {
			protected.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Origin")
		origin, ok := f.siteOrigin(r)
		if !ok {
			f.crossSite(w)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
			h.Set("Access-Control-Max-Age", preflightTime)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", "Retry-After")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), originKey{}, origin)))
	})
}

func (f *Front) crossSite(w http.ResponseWriter) {
	f.Counters.CrossSite.Add(1)
	problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This request came from another site."})
}

// wrongOrigin is the answer of a site that does not allow the page's origin.
func (f *Front) wrongOrigin(w http.ResponseWriter) {
	f.Counters.OriginRefused.Add(1)
	problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This origin may not connect."})
}
