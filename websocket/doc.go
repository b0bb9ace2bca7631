// Package websocket serves WebSocket connections (RFC 6455) on Eddy's loops,
// behind the handshake of package http1.
//
//	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
//		_, err := websocket.Upgrade(w, r, chat{}, websocket.Options{})
//		...
//	})
//
// A connection costs no goroutine. Its [Handler] runs on the connection's loop
// and must not block; it hands work that may block to a pool and answers later
// with [Conn.Write], which any goroutine may call.
package websocket
