// Command gnetecho is an echo server over gnet v2 with one event loop, as its documentation shows it.
package main

import (
	"log"
	"net"
	"net/netip"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/bench/internal/target"
)

type echo struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
}

func (e *echo) OnBoot(engine gnet.Engine) gnet.Action {
	e.booted <- engine
	return gnet.None
}

func (e *echo) OnTraffic(c gnet.Conn) gnet.Action {
	p, err := c.Next(-1)
	if err == nil {
		_, err = c.Write(p)
	}
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}

func main() {
	e := &echo{booted: make(chan gnet.Engine, 1)}
	go func() {
		log.Fatalf("gnetecho: %v", gnet.Run(e, "tcp://127.0.0.1:0", gnet.WithNumEventLoop(1)))
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
