// Command netecho is the baseline every Go programmer would write: one goroutine per connection over package net.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net"

	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/tlsx"
)

const bufferSize = 4096

func main() {
	pause := flag.Bool("pause", false, "read once per connection, answer, and then keep it without reading")
	secure := flag.Bool("tls", false, "speak TLS, with a certificate made at the start")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("netecho: %v", err)
	}
	if *secure {
		cert, err := tlsx.SelfSigned("localhost")
		if err != nil {
			log.Fatalf("netecho: %v", err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	go serve(l, *pause)
	target.Serve(l.Addr())
}

func serve(l net.Listener, pause bool) {
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatalf("netecho: %v", err)
		}
		go echo(conn, pause)
	}
}

func echo(conn net.Conn, pause bool) {
	defer conn.Close()
	buf := make([]byte, bufferSize)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
		if pause {
			select {}
		}
	}
}
