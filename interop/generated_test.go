package interop

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
)

// echoes implements two methods of the example's service.
type echoes struct {
	greeterpb.UnimplementedGreeterServer
}

// SayHello implements greeterpb.GreeterServer.
func (echoes) SayHello(_ context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	return &greeterpb.HelloReply{Message: req.GetName()}, nil
}

// Chat implements greeterpb.GreeterServer.
func (echoes) Chat(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest], out *rpc.Sender[greeterpb.HelloReply]) error {
	for req, err := range in.All() {
		if err != nil {
			return err
		}
		if err := out.Send(&greeterpb.HelloReply{Message: req.GetName()}); err != nil {
			return err
		}
	}
	return nil
}

// TestGeneratedServer: the client of grpc-go calls a server that protoc-gen-eddy has generated, by the generated names of its methods.
func TestGeneratedServer(t *testing.T) {
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "port", Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if err := greeterpb.RegisterGreeterServer(srv, echoes{}); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(srv.Addr("port").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var reply greeterpb.HelloReply
	if err := conn.Invoke(t.Context(), greeterpb.Greeter_SayHello_FullMethodName, &greeterpb.HelloRequest{Name: "a"}, &reply); err != nil || reply.GetMessage() != "a" {
		t.Errorf("%v, %v", &reply, err)
	}
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, greeterpb.Greeter_Chat_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c"} {
		if err := s.SendMsg(&greeterpb.HelloRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&reply); err != nil || reply.GetMessage() != name {
			t.Errorf("%v, %v", &reply, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	if err := s.RecvMsg(&reply); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	s, err = conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, greeterpb.Greeter_Count_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&greeterpb.HelloRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	if err := s.RecvMsg(&reply); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that is not there: %v", err)
	}
}
