// Package http2 serves HTTP/2 (RFC 9113) on Eddy's loops and runs any net/http handler on a bounded pool.
//
//	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 64})
//	...
//	h1 := http1.NewHandler(mux, pool, http1.Options{})
//	h2 := http2.NewHandler(mux, pool, http2.Options{})
//	srv := &eddy.Server{Init: http2.Either(h1.Init, h2.Init)}
//	err = srv.ListenAndServe("tcp", "127.0.0.1:8080")
//
// [Either] serves both versions on a plain port. Behind TLS the client chooses by ALPN, see tlsx.ByProtocol. docs/http.md has
// the limits and the answers beyond them.
//
// # What runs where
//
// The loop reads frames, keeps the header tables and the windows, and decides which stream is sent next. Handlers run on a
// pool, as those of package http1 do: one that waits for its client gives its worker to other requests.
//
// # Streams beside each other
//
// Each stream has a window of its own for its request body, Options.BodyBuffer. The window of the connection is opened again
// as soon as bytes arrive, so a handler that reads slowly holds back its own stream only. A response waits in its stream,
// up to Options.ResponseBuffer, until the client's windows and the connection's queue have room. Then the handler's Write
// blocks, and nothing else does. Streams of the same urgency (RFC 9218) take turns.
//
// # Floods
//
// Frames that cost the server more than the client, such as a PING or the reset of a request, are counted. Beyond
// Options.ControlBurst the connection ends with GOAWAY and ENHANCE_YOUR_CALM. A request that the client has reset counts as
// in flight until its handler has returned.
package http2
