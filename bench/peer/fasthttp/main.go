// Command fasthttp is valyala/fasthttp with the comparison's answer, or with the files of a directory.
package main

import (
	"flag"
	"log"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	dir := flag.String("files", "", "serve the files of this directory")
	flag.Parse()
	h := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType(target.HTTPType)
		ctx.SetBodyString(target.HTTPBody)
	}
	if *dir != "" {
		h = fasthttp.FSHandler(*dir, 0)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("fasthttp: %v", err)
	}
	go fasthttp.Serve(l, h)
	target.Serve(l.Addr())
}
