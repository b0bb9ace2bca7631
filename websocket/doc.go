// Package websocket speaks WebSocket (RFC 6455) on Eddy's loops, as a server
// behind the handshake of package http1 and as a client.
//
// # Serving
//
// Call [Upgrade] in a handler that package http1 runs. An [Upgrader] that is
// kept checks its [Options] once for all its connections.
//
//	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
//		_, err := websocket.Upgrade(w, r, chat{}, websocket.Options{})
//		...
//	})
//
// A connection costs no goroutine. Its [Handler] runs on the connection's loop
// and must not block. Hand work that may block to a pool, and answer later with
// [Conn.Write], which any goroutine may call.
//
// # Connecting
//
// [Dialer.Dial] connects to a server.
//
// # Sending to many
//
// A [Hub] sends each message to a set of connections, and frames and compresses
// it only once. A [Prepared] message does the same without a hub.
//
// # Compression
//
// [NewCompression] makes the [Compression] that Options.Compression takes.
//
// docs/websocket.md is the guide.
package websocket
