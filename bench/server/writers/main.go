// Command writers sends messages of 64 B to each of its clients, from goroutines that belong to no connection. A server
// that answers a database or forwards a chat message does the same. With -net they call net.Conn.Write.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
)

const messageSize = 64

func main() {
	plain := flag.Bool("net", false, "package net instead of the engine")
	writers := flag.Int("writers", 1, "goroutines per connection")
	every := flag.Duration("every", 0, "pause between two writes of a goroutine; 0 = none")
	flag.Parse()
	listen := listenEddy
	if *plain {
		listen = listenNet
	}
	addr, err := listen(func(write func(any) error) {
		for range *writers {
			go produce(write, *every)
		}
	})
	if err != nil {
		log.Fatalf("writers: %v", err)
	}
	target.Serve(addr)
}

// produce writes until the connection ends. The message is never changed, so that it may be queued by reference.
func produce(write func(any) error, every time.Duration) {
	var message any = make([]byte, messageSize)
	for write(message) == nil {
		if every > 0 {
			time.Sleep(every)
		}
	}
}

func listenNet(opened func(func(any) error)) (net.Addr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				log.Fatalf("writers: %v", err)
			}
			opened(func(message any) error {
				_, err := conn.Write(message.([]byte))
				return err
			})
		}
	}()
	return l.Addr(), nil
}

// opener starts the writers of a connection.
type opener struct{ opened func(func(any) error) }

func (h opener) HandleOpen(ctx *eddy.Context) error {
	c := ctx.Conn()
	h.opened(func(message any) error {
		return c.WriteContext(context.Background(), message)
	})
	return nil
}

func listenEddy(opened func(func(any) error)) (net.Addr, error) {
	srv := &eddy.Server{
		Loops:      1,
		Logger:     slog.New(slog.DiscardHandler), // the clients leave with resets
		Watermarks: eddy.Watermarks{Low: 16 << 10, High: 64 << 10, Max: 1 << 20},
		Init:       func(p *eddy.Pipeline) error { return p.Add("opener", opener{opened}) },
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	return srv.Addr(), nil
}
