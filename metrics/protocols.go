package metrics

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/tlsx"
)

type (
	httpStats      = http1.Stats
	http2Stats     = http2.Stats
	transportStats = http1.TransportStats
	tlsStats       = tlsx.Stats
	responderStats = responder.Stats
)

//nolint:gochecknoglobals // tables, never written
var (
	httpTable = expo.Table[httpStats]{
		expo.Count("eddy_http_requests_total", "Complete request heads.", func(s *httpStats) uint64 { return s.Requests }),
		expo.Count("eddy_http_upgrades_total", "Connections, or streams of HTTP/2, handed to another protocol.", func(s *httpStats) uint64 { return s.Upgrades }),
		expo.Count("eddy_http_invalid_fields_total", "Response header fields dropped because they cannot be sent.", func(s *httpStats) uint64 { return s.InvalidFields }),
	}.With("http")
	httpResponses = expo.Counter("eddy_http_responses_total", "Responses, by class of their status; 1xx are informational.", "http", "code")
	httpRejected  = expo.Counter("eddy_http_rejected_total", "Requests that no handler answered, by cause: busy (503, the pool was full), malformed (or too large) and timeout (a head or body came too slowly).", "http", "cause")

	http2Table = expo.Table[http2Stats]{
		expo.Count("eddy_http2_refused_total", "Requests beyond the limit of open ones, which the client may send again.", func(s *http2Stats) uint64 { return s.Refused }),
		expo.Count("eddy_http2_resets_total", "Requests that the client has reset.", func(s *http2Stats) uint64 { return s.Resets }),
		expo.Count("eddy_http2_floods_total", "Connections ended with ENHANCE_YOUR_CALM, because of frames that cost the server more than the client.", func(s *http2Stats) uint64 { return s.Floods }),
	}.With("http")

	transportTable = expo.Table[transportStats]{
		expo.Level("eddy_http_client_connections", "Connections, and attempts to connect.", func(s *transportStats) int { return s.Open }),
		expo.Level("eddy_http_client_idle_connections", "Connections without a request.", func(s *transportStats) int { return s.Idle }),
		expo.Level("eddy_http_client_waiting", "Requests that wait for a connection.", func(s *transportStats) int { return s.Waiting }),
		expo.Count("eddy_http_client_requests_total", "Requests begun.", func(s *transportStats) uint64 { return s.Requests }),
		expo.Count("eddy_http_client_reused_total", "Requests sent on a connection that had served before.", func(s *transportStats) uint64 { return s.Reused }),
		expo.Count("eddy_http_client_retried_total", "Requests sent once more, because the connection was found closed.", func(s *transportStats) uint64 { return s.Retried }),
	}.With("transport")

	tlsTable = expo.Table[tlsStats]{
		expo.Level("eddy_tls_handshakes", "Handshakes under way.", func(s *tlsStats) int64 { return s.Active }),
		expo.Count("eddy_tls_established_total", "Handshakes that succeeded.", func(s *tlsStats) uint64 { return s.Established }),
		expo.Count("eddy_tls_resumed_total", "Of those, by a ticket.", func(s *tlsStats) uint64 { return s.Resumed }),
		expo.Count("eddy_tls_truncated_total", "Connections that ended without close_notify.", func(s *tlsStats) uint64 { return s.Truncated }),
	}.With("tls")
	tlsFailed = expo.Counter("eddy_tls_failed_total", "Handshakes that did not succeed, by cause: handshake, not_tls (the first bytes were not TLS) and refused (by a bound of the layer or its pool).", "tls", "cause")

	responderEnded = expo.Counter("eddy_requests_failed_total", "Requests of a Responder or frame.Server that did not go the usual way, by outcome: failed (it panicked), refused (draining, duplicate or not routed), rejected (the pool was full or stopped), cancelled, expired (its timeout) and abandoned (its connection ended).", "responder", "outcome")
	responderLost  = expo.Counter("eddy_requests_dropped_total", "One-way requests that were not run, which nobody was told.", "responder")

	classTable = expo.Table[eddy.ClassStats]{
		expo.Count("eddy_class_dropped_total", "Messages of the class that were taken and dropped.", func(s *eddy.ClassStats) uint64 { return s.Dropped }),
		expo.Count("eddy_class_rejected_total", "Messages of the class that were refused.", func(s *eddy.ClassStats) uint64 { return s.Rejected }),
	}.With("class")
)

func protocolFamilies() []*expo.Family {
	all := append(httpTable.Families(), httpResponses, httpRejected)
	all = append(append(all, http2Table.Families()...), transportTable.Families()...)
	all = append(append(all, tlsTable.Families()...), tlsFailed, responderEnded, responderLost)
	return append(all, classTable.Families()...)
}

// statusClasses are the labels of http1.Stats.Responses.
var statusClasses = [...]string{1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"} //nolint:gochecknoglobals // never written

// HTTP returns a Source of the numbers of an HTTP server's Factory.
func HTTP(name string, f *http1.Factory) Source {
	return source("HTTP server", name, f, func(_ *memory, scrape *expo.Scrape, st *httpStats) { putHTTP(scrape, name, st) })
}

func putHTTP(scrape *expo.Scrape, name string, st *httpStats) {
	httpTable.Put(scrape, st, name)
	for class := 1; class < len(statusClasses); class++ {
		scrape.Put(httpResponses, float64(st.Responses[class]), name, statusClasses[class])
	}
	scrape.Put(httpRejected, float64(st.Busy), name, "busy")
	scrape.Put(httpRejected, float64(st.ProtocolErrors), name, "malformed")
	scrape.Put(httpRejected, float64(st.Timeouts), name, "timeout")
}

// HTTP2 returns a Source of the numbers of an HTTP/2 server's Factory. They are in the same series as those of HTTP, under
// a name of their own, beside some that only HTTP/2 has.
func HTTP2(name string, f *http2.Factory) Source {
	return source("HTTP/2 server", name, f, func(_ *memory, scrape *expo.Scrape, st *http2Stats) { putHTTP2(scrape, name, st) })
}

func putHTTP2(scrape *expo.Scrape, name string, st *http2Stats) {
	http2Table.Put(scrape, st, name)
	putHTTP(scrape, name, &httpStats{
		Requests: st.Requests, Responses: st.Responses, Busy: st.Busy, ProtocolErrors: st.ProtocolErrors, Timeouts: st.Timeouts,
		Upgrades: st.Tunnels, InvalidFields: st.InvalidFields,
	})
}

// Transport returns a Source of the numbers of an HTTP client. A scrape takes the client's lock for a moment.
func Transport(name string, t *http1.Transport) Source {
	return table("HTTP client", name, t, transportTable)
}

// TLS returns a Source of the numbers of a TLS layer.
func TLS(name string, l *tlsx.Layer) Source {
	return source("TLS layer", name, l, func(_ *memory, scrape *expo.Scrape, st *tlsStats) { putTLS(scrape, name, st) })
}

func putTLS(scrape *expo.Scrape, name string, st *tlsStats) {
	tlsTable.Put(scrape, st, name)
	scrape.Put(tlsFailed, float64(st.Failed), name, "handshake")
	scrape.Put(tlsFailed, float64(st.NotTLS), name, "not_tls")
	scrape.Put(tlsFailed, float64(st.Refused), name, "refused")
}

// Responder returns a Source of the numbers of a responder.Responder or a frame.Server.
func Responder[W interface {
	comparable
	Stats() responder.Stats
}](name string, r W) Source {
	return source("responder", name, r, func(_ *memory, scrape *expo.Scrape, st *responderStats) { putResponder(scrape, name, st) })
}

func putResponder(scrape *expo.Scrape, name string, st *responderStats) {
	for _, o := range [...]struct {
		outcome string
		n       uint64
	}{
		{"failed", st.Failed}, {"refused", st.Refused}, {"rejected", st.Rejected}, {"cancelled", st.Canceled}, {"expired", st.Expired}, {"abandoned", st.Abandoned},
	} {
		scrape.Put(responderEnded, float64(o.n), name, o.outcome)
	}
	scrape.Put(responderLost, float64(st.Dropped), name)
}

// Class returns a Source of the numbers of messages of a class that were dropped or refused.
func Class(name string, k *eddy.MessageClass) Source {
	return table("message class", name, k, classTable)
}
