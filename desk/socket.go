package desk

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-eddy/eddy/desk/proto"
)

// sameOrigin reports whether a browser's Origin is this server itself. A request without one comes from a program;
// it gets no further than hello without a token or ticket, since cookies alone never authenticate a WebSocket.
func (d *Desk) sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	return u.Scheme == "https" || (u.Scheme == "http" && !d.o.HTTPS)
}

// socket upgrades to the WebSocket of both roles.
func (d *Desk) socket(w http.ResponseWriter, r *http.Request) {
	if !d.sameOrigin(r) {
		d.counters.originRefused.Add(1)
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This origin may not connect."})
		return
	}
	w.WriteHeader(http.StatusNotImplemented)
}
