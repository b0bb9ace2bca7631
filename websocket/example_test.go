package websocket_test

import (
	"fmt"
	"net/http"

	"github.com/go-eddy/eddy/websocket"
)

// shout answers every message in the same kind.
type shout struct{}

func (shout) HandleOpen(c *websocket.Conn) error {
	return c.Write(websocket.Text, []byte("welcome "+c.Eddy().RemoteAddr().String()))
}

func (shout) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	return c.WriteBytes(op, data) // a copy: data is valid during the call only
}

func (shout) HandleClose(_ *websocket.Conn, code int, reason string) {
	fmt.Println("closed", code, reason)
}

func ExampleUpgrade() {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Upgrade(w, r, shout{}, websocket.Options{Subprotocols: []string{"shout.v1"}})
		if err != nil {
			return // the client has been answered
		}
		fmt.Println("connected with", c.Subprotocol())
	})
	// mux is served by package http1.
}
