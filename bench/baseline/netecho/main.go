// Command netecho is the baseline every Go programmer would write: one goroutine per connection over package net.
// It prints "listening ADDR" and serves until its standard input ends.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
)

const bufferSize = 4096

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("netecho: %v", err)
	}
	fmt.Println("listening", l.Addr())
	go serve(l)
	io.Copy(io.Discard, os.Stdin)
}

func serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatalf("netecho: %v", err)
		}
		go echo(conn)
	}
}

func echo(conn net.Conn) {
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
	}
}
