// Command gnetecho is an echo server over gnet v2, with one event loop unless told otherwise. It answers as gnet's
// documentation shows: in OnTraffic, or on gnet's pool of goroutines with AsyncWrite.
package main

import (
	"flag"
	"log"
	"net"
	"net/netip"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"
	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/bench/internal/target"
)

type echo struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
	pool   *goroutine.Pool // nil answers on the loop
}

func (e *echo) OnBoot(engine gnet.Engine) gnet.Action {
	e.booted <- engine
	return gnet.None
}

func (e *echo) OnTraffic(c gnet.Conn) gnet.Action {
	p, err := c.Next(-1)
	switch {
	case err != nil:
	case e.pool != nil:
		message := append([]byte(nil), p...) // p is valid until OnTraffic returns
		err = e.pool.Submit(func() { c.AsyncWrite(message, nil) })
	default:
		_, err = c.Write(p)
	}
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}

func main() {
	workers := flag.Int("workers", 0, "answer on gnet's pool of goroutines; 0 answers on the loop")
	loops := flag.Int("loops", 1, "event loops")
	flag.Parse()
	e := &echo{booted: make(chan gnet.Engine, 1)}
	if *workers > 0 {
		e.pool = goroutine.Default()
	}
	go func() {
		log.Fatalf("gnetecho: %v", gnet.Run(e, "tcp://127.0.0.1:0", gnet.WithNumEventLoop(*loops)))
	}()
	target.Serve(address(<-e.booted))
}

// address asks the kernel for the port that it chose.
func address(engine gnet.Engine) net.Addr {
	fd, err := engine.Dup()
	if err != nil {
		log.Fatalf("gnetecho: %v", err)
	}
	defer unix.Close(fd)
	sa, err := unix.Getsockname(fd)
	if err != nil {
		log.Fatalf("gnetecho: %v", err)
	}
	in := sa.(*unix.SockaddrInet4)
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)))
}
