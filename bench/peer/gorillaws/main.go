// Command gorillaws is a WebSocket server over gorilla/websocket and net/http, as its documentation shows it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/go-eddy/eddy/bench/internal/target"
)

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// room holds the connections that get the broadcast messages. Each connection has a goroutine that writes.
type room struct {
	mu    sync.Mutex
	conns map[chan *websocket.PreparedMessage]bool
}

func main() {
	mode := flag.String("mode", "echo", "echo or hub")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("gorillaws: %v", err)
	}
	serve := echo
	if *mode == "hub" {
		serve = (&room{conns: map[chan *websocket.PreparedMessage]bool{}}).serve
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		serve(c)
	})
	go func() { log.Fatalf("gorillaws: %v", http.Serve(l, h)) }()
	target.Serve(l.Addr())
}

func echo(c *websocket.Conn) {
	for {
		op, data, err := c.ReadMessage()
		if err != nil || c.WriteMessage(op, data) != nil {
			return
		}
	}
}

func (r *room) serve(c *websocket.Conn) {
	out := make(chan *websocket.PreparedMessage, 256)
	r.mu.Lock()
	r.conns[out] = true
	r.mu.Unlock()
	go func() {
		for m := range out {
			if c.WritePreparedMessage(m) != nil {
				return
			}
		}
	}()
	for {
		op, data, err := c.ReadMessage()
		r.mu.Lock()
		if err != nil {
			delete(r.conns, out)
			close(out)
			r.mu.Unlock()
			return
		}
		if m, err := websocket.NewPreparedMessage(op, data); err == nil {
			for o := range r.conns {
				select {
				case o <- m:
				default:
				}
			}
		}
		r.mu.Unlock()
	}
}
