// Command echo sends every byte back: a handler without a decoder in front of it. Try it with: nc 127.0.0.1 7000
package main

import (
	"log"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

func server() *eddy.Server {
	echo := eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
		return ctx.WriteBytes(b.Bytes()) // copied: b is the loop's memory, valid during this call
	})
	return &eddy.Server{Init: func(p *eddy.Pipeline) error { return p.Add("echo", echo) }}
}

func main() { log.Fatal(server().ListenAndServe("tcp", "127.0.0.1:7000")) }
