// Command callbacks serves a program written as three callbacks, OnOpen, OnTraffic and OnClose, as other event loops have them. OnTraffic sees the
// bytes received so far and returns how many it has used. docs/migrating.md goes from here to a pipeline. Try it with: nc 127.0.0.1 7000
package main

import (
	"bytes"
	"log"

	"github.com/go-eddy/eddy"
)

// A program is what a user of another engine has. The callbacks run on the connection's loop.
type program interface {
	OnOpen(c *eddy.Conn) (greeting []byte)
	OnTraffic(c *eddy.Conn, received []byte) (answer []byte, used int, stop bool)
	OnClose(c *eddy.Conn, err error)
}

// bridge is the handler that calls a program.
type bridge struct{ program }

func (b bridge) HandleOpen(ctx *eddy.Context) error { return ctx.WriteBytes(b.OnOpen(ctx.Conn())) }

func (b bridge) Decode(ctx *eddy.Context, view []byte) (int, error) {
	answer, used, stop := b.OnTraffic(ctx.Conn(), view)
	err := ctx.WriteBytes(answer)
	if stop {
		ctx.CloseAfterFlush(eddy.CloseNormal)
	}
	return used, err
}

func (b bridge) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	b.OnClose(ctx.Conn(), eddy.WithReason(reason, err))
}

// shout is such a program. It answers every line in capital letters.
type shout struct{}

func (shout) OnOpen(*eddy.Conn) []byte { return []byte("say something\n") }

func (shout) OnTraffic(_ *eddy.Conn, received []byte) ([]byte, int, bool) {
	n := bytes.LastIndexByte(received, '\n') + 1
	return bytes.ToUpper(received[:n]), n, bytes.Contains(received[:n], []byte("bye\n")) || len(received) > 1024
}

func (shout) OnClose(c *eddy.Conn, err error) { log.Print(c.RemoteAddr(), ": ", err) }

func server(b program) *eddy.Server {
	return &eddy.Server{Init: func(p *eddy.Pipeline) error { return p.Add("program", bridge{b}) }}
}

func main() { log.Fatal(server(shout{}).ListenAndServe("tcp", "127.0.0.1:7000")) }
