// Command nethttp is the standard library's HTTP server with the comparison's answer.
package main

import (
	"io"
	"log"
	"net"
	"net/http"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("nethttp: %v", err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", target.HTTPType)
		io.WriteString(w, target.HTTPBody)
	}))
	target.Serve(l.Addr())
}
