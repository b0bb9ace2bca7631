// Command grpcrpc is grpc-go with its defaults and a protobuf message of bytes: the server, or with -client its callers on one
// connection.
package main

import (
	"context"
	"flag"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/bench/internal/target"
)

const method = "/bench.Echo/Echo"

// service is what protoc would generate for a unary method whose request and response are a google.protobuf.BytesValue.
var service = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.BytesValue)
			if err := decode(req); err != nil {
				return nil, err
			}
			return req, nil
		},
	}},
}

func main() {
	c := target.CallFlags()
	flag.Parse()
	if err := run(c); err != nil {
		log.Fatalf("grpcrpc: %v", err)
	}
}

func run(c *target.Calls) error {
	if c.Addr != "" {
		conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		return c.Run(func(req []byte) (int, error) {
			resp := new(wrapperspb.BytesValue)
			err := conn.Invoke(context.Background(), method, &wrapperspb.BytesValue{Value: req}, resp)
			return len(resp.Value), err
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	srv.RegisterService(&service, nil)
	go func() {
		if err := srv.Serve(l); err != nil {
			log.Fatalf("grpcrpc: %v", err)
		}
	}()
	target.Serve(l.Addr())
	srv.Stop()
	return nil
}
