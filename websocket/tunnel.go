package websocket

import (
	"fmt"
	"net/http"

	"github.com/go-eddy/eddy/internal/httpserve"
)

// throughTunnel makes the stream of a CONNECT with :protocol (RFC 8441) the
// connection.
func (c *Conn) throughTunnel(w http.ResponseWriter, header http.Header) error {
	for {
		switch v := w.(type) {
		case httpserve.Tunneler:
			return v.Tunnel(header, func(t httpserve.Tunnel) httpserve.TunnelHandler {
				c.conn = t
				return tunneled{c, t}
			})
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return fmt.Errorf("a CONNECT needs a ResponseWriter of package http2, got %T: %w", w, http.ErrNotSupported)
		}
	}
}

// tunneled is a connection as the handler of its tunnel.
type tunneled struct {
	c *Conn
	t httpserve.Tunnel
}

// Open implements httpserve.TunnelHandler.
func (t tunneled) Open() { t.c.open(t.t.Context()) }

// Decode implements httpserve.TunnelHandler.
func (t tunneled) Decode(view []byte) int { return t.c.decode(view) }

// Writability implements httpserve.TunnelHandler.
func (t tunneled) Writability(writable bool) { t.c.writability(writable) }

// InputClosed implements httpserve.TunnelHandler.
func (t tunneled) InputClosed() { t.c.inputEnded() }

// Drain implements httpserve.TunnelHandler.
func (t tunneled) Drain() { t.c.drain() }

// Failed implements httpserve.TunnelHandler.
func (t tunneled) Failed() { t.c.failed() }

// Closed implements httpserve.TunnelHandler.
func (t tunneled) Closed() { t.c.finish() }
