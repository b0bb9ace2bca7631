package main

import (
	"bytes"
	"net/http"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/websocket"
	"github.com/spf13/cobra"
)

// handshakeWorkers serve the HTTP requests that become WebSockets; after the upgrade everything runs on the loop.
const handshakeWorkers = 4

func newServeWS(t *terminal) *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:     "ws",
		Short:   "Send every WebSocket message back",
		Example: "  eddy serve ws --addr 127.0.0.1:7000\n  eddy bench ws --addr 127.0.0.1:7000",
		RunE: func(*cobra.Command, []string) error {
			pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: handshakeWorkers, Queue: 1024})
			if err != nil {
				return err
			}
			defer pool.Close()
			pages := http1.NewHandler(http.HandlerFunc(upgradeEcho), pool, http1.Options{})
			return t.serve(f, "ws", pages.Init)
		},
	}
	f.register(cmd, defaultServeAddr)
	return cmd
}

// upgradeEcho makes a WebSocket of every request that asks for one.
func upgradeEcho(w http.ResponseWriter, r *http.Request) {
	_, _ = websocket.Upgrade(w, r, echoSocket{}, websocket.Options{}) // it answers refusals itself
}

// echoSocket sends every message back.
type echoSocket struct{}

func (echoSocket) HandleOpen(*websocket.Conn) error { return nil }

func (echoSocket) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	return c.Write(op, bytes.Clone(data))
}

func (echoSocket) HandleClose(*websocket.Conn, int, string) {}
