package websocket_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/websocket"
)

// seat is a connection of a room. It joins the hub and broadcasts its messages.
type seat struct{ hub *websocket.Hub }

func (s seat) HandleOpen(c *websocket.Conn) error { return s.hub.Join(c, nil) }
func (s seat) HandleMessage(_ *websocket.Conn, op websocket.Opcode, data []byte) error {
	return s.hub.Broadcast(op, data)
}
func (seat) HandleClose(*websocket.Conn, int, string) {}

// ear is a client that hears.
type ear chan string

func (ear) HandleOpen(*websocket.Conn) error { return nil }
func (e ear) HandleMessage(_ *websocket.Conn, _ websocket.Opcode, data []byte) error {
	e <- string(data)
	return nil
}
func (ear) HandleClose(*websocket.Conn, int, string) {}

func ExampleHub() {
	hub, err := websocket.NewHub(websocket.HubOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := executor.NewFixed(executor.Options{Name: "http"})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, seat{hub}, websocket.Options{}) // after an error the request has been answered
	})
	srv := &eddy.Server{Init: http1.NewHandler(h, pool, http1.Options{}).Init, Pools: []*executor.Pool{pool}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	var dialer websocket.Dialer
	defer dialer.Close()
	var room []ear
	for _, text := range []string{"one is here", "two are here"} {
		e := make(ear, 2)
		c, err := dialer.Dial(context.Background(), "ws://"+srv.Addr().String()+"/", e)
		if err == nil {
			err = c.Write(websocket.Text, []byte(text))
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		room = append(room, e)
		for _, e := range room {
			fmt.Println(<-e)
		}
	}
	// Output:
	// one is here
	// two are here
	// two are here
}
