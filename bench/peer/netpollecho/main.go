// Command netpollecho is an echo server over cloudwego/netpoll with one poller, as its documentation shows it.
package main

import (
	"context"
	"log"

	"github.com/cloudwego/netpoll"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	if err := netpoll.Configure(netpoll.Config{PollerNum: 1}); err != nil {
		log.Fatalf("netpollecho: %v", err)
	}
	l, err := netpoll.CreateListener("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("netpollecho: %v", err)
	}
	loop, err := netpoll.NewEventLoop(echo)
	if err != nil {
		log.Fatalf("netpollecho: %v", err)
	}
	go func() { log.Fatalf("netpollecho: %v", loop.Serve(l)) }()
	target.Serve(l.Addr())
}

func echo(_ context.Context, c netpoll.Connection) error {
	r, w := c.Reader(), c.Writer()
	n := r.Len()
	p, err := r.Next(n)
	if err != nil {
		return err
	}
	out, err := w.Malloc(n)
	if err != nil {
		return err
	}
	copy(out, p)
	if err := w.Flush(); err != nil {
		return err
	}
	return r.Release()
}
