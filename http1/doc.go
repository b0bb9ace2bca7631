// Package http1 serves HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112) on Eddy's
// loops and runs any net/http handler on a bounded pool.
//
//	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 64})
//	...
//	srv := &eddy.Server{Init: http1.NewHandler(mux, pool, http1.Options{}).Init}
//	err = srv.ListenAndServe("tcp", "127.0.0.1:8080")
//
// Package http2 runs the same handlers for clients of HTTP/2.
//
// [Transport] is the client. docs/http.md has the limits and the answers beyond
// them.
//
// # What runs where
//
// The loop parses and frames, and never waits for a handler. One request of a
// connection runs at a time and the next one waits, so that responses keep the
// order of the requests. A handler that does not read its body holds back that
// connection only. A client that does not read its response holds back the
// handler's goroutine only.
//
// # Handlers that wait
//
// A handler that waits for its client gives its worker to other requests. So
// does a handler that streams, from its first Flush on, and one that waits for
// something of its own in [Wait]. A full pool answers 503 and keeps the
// connection. [Options].Route gives routes pools of their own, and handlers
// whole bodies.
//
// # Half-close
//
// A client may end its side before it has the response, unless
// Server.CloseOnEOF is set.
package http1
