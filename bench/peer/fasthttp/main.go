// Command fasthttp is valyala/fasthttp with the comparison's answer.
package main

import (
	"log"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("fasthttp: %v", err)
	}
	go fasthttp.Serve(l, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType(target.HTTPType)
		ctx.SetBodyString(target.HTTPBody)
	})
	target.Serve(l.Addr())
}
