// Command chat is a chat room: every member hears what each member says. The page is served by net/http on a pool. The WebSockets are connections of
// the loops, without a goroutine each. Open http://127.0.0.1:8000/ in two windows.
package main

import (
	_ "embed"
	"errors"
	"log"
	"net/http"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/websocket"
)

//go:embed page.html
var page []byte

// room handles the events of its connections. It runs on their loops and must not block.
type room struct {
	hub *websocket.Hub
	// talk is the class of messages to members. When more than 100 of them wait for a slow reader, the oldest are dropped.
	talk *eddy.MessageClass
}

func (r room) HandleOpen(c *websocket.Conn) error { return r.hub.Join(c, r.talk) }

func (r room) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	err := r.hub.Broadcast(op, data)
	if errors.Is(err, eddy.ErrBackpressure) { // too many messages wait in the hub
		return c.Write(websocket.Text, []byte("(the room is too busy, say it again)"))
	}
	return err
}

func (room) HandleClose(*websocket.Conn, int, string) {} // the connection has left the hub by itself

func server() (*eddy.Server, error) {
	hub, err := websocket.NewHub(websocket.HubOptions{})
	if err != nil {
		return nil, err
	}
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 16, Queue: 256})
	if err != nil {
		return nil, err
	}
	members := room{hub, &eddy.MessageClass{Name: "talk", Policy: eddy.OverflowDropOldest, MaxMessages: 100}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	mux.HandleFunc("GET /room", func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, members, websocket.Options{MaxMessage: 4096}) // after an error the request has been answered
	})
	return &eddy.Server{
		Init:  http1.NewHandler(mux, pool, http1.Options{}).Init,
		Pools: []*executor.Pool{pool},
	}, nil
}

func main() {
	srv, err := server()
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:8000")
	}
	log.Fatal(err)
}
