// Command shout answers every line in capital letters. Try it with: nc 127.0.0.1 7000
package main

import (
	"bytes"
	"log"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
)

func server() *eddy.Server {
	return &eddy.Server{Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("shout", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.WriteBytes(append(bytes.ToUpper(l.Text()), '\n'))
		}))
	}}
}

func main() { log.Fatal(server().ListenAndServe("tcp", "127.0.0.1:7000")) }
