// Command nbioecho is an echo server over nbio with one poller, as its documentation shows it.
package main

import (
	"log"
	"net"

	"github.com/lesismal/nbio"

	"github.com/go-eddy/eddy/bench/internal/target"
)

func main() {
	engine := nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}, NPoller: 1})
	engine.OnData(func(c *nbio.Conn, data []byte) {
		c.Write(append([]byte{}, data...))
	})
	if err := engine.Start(); err != nil {
		log.Fatalf("nbioecho: %v", err)
	}
	addr, err := net.ResolveTCPAddr("tcp", engine.Addrs[0])
	if err != nil {
		log.Fatalf("nbioecho: %v", err)
	}
	target.Serve(addr)
}
