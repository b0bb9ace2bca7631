package grpcgo_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/grpcgo"
)

// echo is a service as it was written for grpc-go.
type echo struct {
	testgrpc.UnimplementedTestServiceServer
}

// UnaryCall implements testgrpc.TestServiceServer.
func (echo) UnaryCall(_ context.Context, req *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if req.GetPayload() == nil {
		return nil, status.Error(codes.InvalidArgument, "nothing to echo")
	}
	return &testgrpc.SimpleResponse{Payload: req.GetPayload()}, nil
}

func Example() {
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "grpc", Addr: "127.0.0.1:0"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	testgrpc.RegisterTestServiceServer(grpcgo.On(srv), echo{})
	if err := srv.Listen(); err != nil {
		fmt.Println(err)
		return
	}

	conn, err := grpc.NewClient(srv.Addr("grpc").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := testgrpc.NewTestServiceClient(conn)
	resp, err := client.UnaryCall(context.Background(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte("hello")}})
	fmt.Println(string(resp.GetPayload().GetBody()), err)
	_, err = client.UnaryCall(context.Background(), &testgrpc.SimpleRequest{})
	fmt.Println(status.Code(err), status.Convert(err).Message())
	// Output:
	// hello <nil>
	// InvalidArgument nothing to echo
}
