// Command netrpc is net/rpc over gob, as its documentation shows it: the server, or with -client its callers on one connection.
package main

import (
	"flag"
	"log"
	"net"
	"net/rpc"

	"github.com/go-eddy/eddy/bench/internal/target"
)

// Echo is the service.
type Echo struct{}

// Echo returns its request.
func (Echo) Echo(req *[]byte, resp *[]byte) error {
	*resp = *req
	return nil
}

func main() {
	c := target.CallFlags()
	flag.Parse()
	if err := run(c); err != nil {
		log.Fatalf("netrpc: %v", err)
	}
}

func run(c *target.Calls) error {
	if c.Addr != "" {
		cl, err := rpc.Dial("tcp", c.Addr)
		if err != nil {
			return err
		}
		defer cl.Close()
		return c.Run(func(req []byte) (int, error) {
			var resp []byte
			err := cl.Call("Echo.Echo", &req, &resp)
			return len(resp), err
		})
	}
	srv := rpc.NewServer()
	if err := srv.Register(Echo{}); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go srv.Accept(l)
	target.Serve(l.Addr())
	return nil
}
