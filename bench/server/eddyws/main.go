// Command eddyws is the WebSocket server under measurement: it echoes, or sends each message to all of its connections.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/websocket"
)

// echo answers each message with itself.
type echo struct{}

func (echo) HandleOpen(*websocket.Conn) error { return nil }
func (echo) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	return c.WriteBytes(op, data)
}
func (echo) HandleClose(*websocket.Conn, int, string) {}

// all sends each message to everybody, through a hub.
type all struct{ hub *websocket.Hub }

func (h all) HandleOpen(c *websocket.Conn) error { return h.hub.Join(c, nil) }
func (h all) HandleMessage(_ *websocket.Conn, op websocket.Opcode, data []byte) error {
	return h.hub.Broadcast(op, data)
}
func (all) HandleClose(*websocket.Conn, int, string) {}

// each does so with a Write for every connection.
type each struct {
	mu    sync.Mutex
	conns map[*websocket.Conn]bool
}

func (h *each) HandleOpen(c *websocket.Conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = true
	return nil
}

func (h *each) HandleMessage(_ *websocket.Conn, op websocket.Opcode, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	data = bytes.Clone(data)
	for c := range h.conns {
		if err := c.Write(op, data); err != nil {
			return err
		}
	}
	return nil
}

func (h *each) HandleClose(c *websocket.Conn, _ int, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func main() {
	mode := flag.String("mode", "echo", "echo, hub or each")
	compress := flag.Bool("compress", false, "speak permessage-deflate")
	flag.Parse()
	if err := run(*mode, *compress); err != nil {
		log.Fatalf("eddyws: %v", err)
	}
}

func run(mode string, compress bool) error {
	hub, err := websocket.NewHub(websocket.HubOptions{})
	if err != nil {
		return err
	}
	h, ok := map[string]websocket.Handler{"echo": echo{}, "hub": all{hub}, "each": &each{conns: map[*websocket.Conn]bool{}}}[mode]
	if !ok {
		return fmt.Errorf("no mode %q", mode)
	}
	var o websocket.Options
	if compress {
		if o.Compression, err = websocket.NewCompression(websocket.CompressionOptions{Threshold: 1}); err != nil {
			return err
		}
	}
	u, err := websocket.NewUpgrader(o)
	if err != nil {
		return err
	}
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 2, Queue: 1 << 16})
	if err != nil {
		return err
	}
	defer pool.Close()
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = u.Upgrade(w, r, h) }), pool, http1.Options{})
	srv := &eddy.Server{Loops: 1, Init: pages.Init, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	target.Serve(srv.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = srv.Shutdown(ctx)
	if ctx.Err() != nil {
		return nil // the load generator leaves without a close frame
	}
	return err
}
