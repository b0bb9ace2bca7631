// Command coderws is a WebSocket echo server over coder/websocket and net/http, as its documentation shows it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	flag.String("mode", "echo", "only echo")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("coderws: %v", err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		for {
			op, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), op, data) != nil {
				return
			}
		}
	})
	go func() { log.Fatalf("coderws: %v", http.Serve(l, h)) }()
	target.Serve(l.Addr())
}
