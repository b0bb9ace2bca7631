// Command grpcrpc is grpc-go with its defaults and a protobuf message of bytes: the server, or with -client its callers on one
// connection.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/bench/internal/target"
)

const method = "/bench.Echo/Echo"

// repeat is the method that streams. Its metadata says how many times it sends the request back.
var repeat = grpc.StreamDesc{StreamName: "Repeat", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
	meta, _ := metadata.FromIncomingContext(s.Context())
	n, err := strconv.Atoi(strings.Join(meta.Get("times"), ""))
	if err != nil {
		return err
	}
	msg := new(wrapperspb.BytesValue)
	if err := s.RecvMsg(msg); err != nil {
		return err
	}
	for range n {
		if err := s.SendMsg(msg); err != nil {
			return err
		}
	}
	return nil
}}

// service is what protoc would generate for methods whose requests and responses are a google.protobuf.BytesValue.
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
	Streams: []grpc.StreamDesc{repeat},
}

func main() {
	c := target.CallFlags()
	messages := flag.Int("messages", 0, "of a stream that each call is; 0 = calls are unary")
	flag.Parse()
	if err := run(c, *messages); err != nil {
		log.Fatalf("grpcrpc: %v", err)
	}
}

// stream is a call whose response is n messages.
func stream(conn *grpc.ClientConn, n int, req []byte) (int, error) {
	s, err := conn.NewStream(metadata.AppendToOutgoingContext(context.Background(), "times", strconv.Itoa(n)), &repeat, "/bench.Echo/Repeat")
	if err == nil {
		err = s.SendMsg(&wrapperspb.BytesValue{Value: req})
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err != nil {
		return 0, err
	}
	resp := new(wrapperspb.BytesValue)
	for i := 0; ; i++ {
		switch err := s.RecvMsg(resp); {
		case err == io.EOF && i == n:
			return len(resp.Value), nil
		case err == io.EOF:
			return 0, fmt.Errorf("%d messages, want %d", i, n)
		case err != nil:
			return 0, err
		}
	}
}

func run(c *target.Calls, messages int) error {
	if c.Addr != "" {
		conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		if messages > 0 {
			return c.Run(func(req []byte) (int, error) { return stream(conn, messages, req) })
		}
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
