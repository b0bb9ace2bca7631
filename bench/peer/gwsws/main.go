// Command gwsws is a WebSocket server over gws, as its documentation shows it.
package main

import (
	"flag"
	"log"
	"net"
	"sync"

	"github.com/lxzan/gws"

	"github.com/go-eddy/eddy/bench/internal/target"
)

type handler struct {
	gws.BuiltinEventHandler
	broadcast bool
	conns     sync.Map
}

func (h *handler) OnOpen(c *gws.Conn) {
	if h.broadcast {
		h.conns.Store(c, true)
	}
}

func (h *handler) OnClose(c *gws.Conn, _ error) { h.conns.Delete(c) }

func (h *handler) OnMessage(c *gws.Conn, m *gws.Message) {
	defer m.Close()
	if !h.broadcast {
		_ = c.WriteMessage(m.Opcode, m.Bytes())
		return
	}
	b := gws.NewBroadcaster(m.Opcode, m.Bytes())
	defer b.Close()
	h.conns.Range(func(k, _ any) bool {
		_ = b.Broadcast(k.(*gws.Conn))
		return true
	})
}

func main() {
	mode := flag.String("mode", "echo", "echo or hub")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("gwsws: %v", err)
	}
	srv := gws.NewServer(&handler{broadcast: *mode == "hub"}, &gws.ServerOption{CheckUtf8Enabled: true, Recovery: gws.Recovery})
	srv.OnError = func(net.Conn, error) {} // the load generator leaves with resets
	go func() { log.Fatalf("gwsws: %v", srv.RunListener(l)) }()
	target.Serve(l.Addr())
}
