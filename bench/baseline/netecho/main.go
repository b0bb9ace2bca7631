// Command netecho is the baseline every Go programmer would write: one goroutine per connection over package net.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net"
	"runtime"
	"syscall"

	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/tlsx"
)

const bufferSize = 4096

func main() {
	pause := flag.Bool("pause", false, "read once per connection, answer, and then keep it without reading")
	threads := flag.Bool("threads", false, "a thread for each connection, which waits in the kernel")
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
	handle := func(c net.Conn) { echo(c, *pause) }
	if *threads {
		handle = echoOnThread
	}
	go serve(l, handle)
	target.Serve(l.Addr())
}

func serve(l net.Listener, handle func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatalf("netecho: %v", err)
		}
		go handle(conn)
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

// echoOnThread is echo with blocking calls on a thread that does nothing else.
func echoOnThread(conn net.Conn) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	f, err := conn.(*net.TCPConn).File()
	conn.Close()
	if err != nil {
		log.Fatalf("netecho: %v", err)
	}
	defer f.Close()
	fd := int(f.Fd()) // blocking from here on
	buf := make([]byte, bufferSize)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return
		}
	}
}
