// Command greeter serves a service of a .proto file by the code that protoc-gen-eddy has written for it, and calls it by gRPC and by the frame protocol.
package main

//go:generate protoc --go_out=. --go_opt=paths=source_relative --eddy_out=. --eddy_opt=paths=source_relative greeterpb/greeter.proto

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
)

// greeter implements the service. What it has no method for is answered UNIMPLEMENTED.
type greeter struct {
	greeterpb.UnimplementedGreeterServer
}

func greeting(name string) *greeterpb.HelloReply {
	return &greeterpb.HelloReply{Message: "Hello, " + name + "!"}
}

// SayHello implements greeterpb.GreeterServer.
func (greeter) SayHello(_ context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	if req.GetName() == "" {
		return nil, rpc.Statusf(rpc.CodeInvalidArgument, "the name is missing")
	}
	return greeting(req.GetName()), nil
}

// Count implements greeterpb.GreeterServer.
func (greeter) Count(_ context.Context, req *greeterpb.HelloRequest, out *rpc.Sender[greeterpb.HelloReply]) error {
	for range req.GetTimes() {
		if err := out.Send(greeting(req.GetName())); err != nil { // waits while the client takes nothing
			return err
		}
	}
	return nil
}

// maxGuests bounds how many guests one call of Gather keeps.
const maxGuests = 1000

// Gather implements greeterpb.GreeterServer.
func (greeter) Gather(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest]) (*greeterpb.HelloReply, error) {
	var guests []string
	for req, err := range in.All() {
		if err != nil {
			return nil, err
		}
		if len(guests) == maxGuests {
			return nil, rpc.Statusf(rpc.CodeResourceExhausted, "more than %d guests", maxGuests)
		}
		guests = append(guests, req.GetName())
	}
	return greeting(strings.Join(guests, " and ")), nil
}

// Chat implements greeterpb.GreeterServer.
func (greeter) Chat(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest], out *rpc.Sender[greeterpb.HelloReply]) error {
	for req, err := range in.All() {
		if err != nil {
			return err
		}
		if err := out.Send(greeting(req.GetName())); err != nil {
			return err
		}
	}
	return nil
}

// server serves the greeter.
func server() (*rpc.Server, error) {
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "main", Addr: "127.0.0.1:0"}}})
	if err != nil {
		return nil, err
	}
	return srv, errors.Join(greeterpb.RegisterGreeterServer(srv, greeter{}), srv.Listen())
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
