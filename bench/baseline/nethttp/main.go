// Command nethttp is the standard library's HTTP server with the comparison's answer, or with the files of a directory.
package main

import (
	"crypto/tls"
	"flag"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/tlsx"
)

func main() {
	dir := flag.String("files", "", "serve the files of this directory")
	h2 := flag.Bool("http2", false, "speak HTTP/2 with prior knowledge, too")
	secure := flag.Bool("tls", false, "speak TLS, with a certificate made at the start")
	flag.Parse()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", target.HTTPType)
		io.WriteString(w, target.HTTPBody)
	})
	if *dir != "" {
		h = http.FileServer(http.Dir(*dir))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("nethttp: %v", err)
	}
	if *secure {
		cert, err := tlsx.SelfSigned("localhost")
		if err != nil {
			log.Fatalf("nethttp: %v", err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(*h2)
	go srv.Serve(l)
	target.Serve(l.Addr())
}
