package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// polite implements the example's service.
type polite struct {
	greeterpb.UnimplementedGreeterServer
	word string
}

func (p polite) reply(name string) *greeterpb.HelloReply {
	return &greeterpb.HelloReply{Message: p.word + " " + name}
}

// SayHello implements greeterpb.GreeterServer.
func (p polite) SayHello(_ context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	return p.reply(req.GetName()), nil
}

// Count implements greeterpb.GreeterServer.
func (p polite) Count(_ context.Context, req *greeterpb.HelloRequest, out *rpc.Sender[greeterpb.HelloReply]) error {
	for range req.GetTimes() {
		if err := out.Send(p.reply(req.GetName())); err != nil {
			return err
		}
	}
	return nil
}

// Gather implements greeterpb.GreeterServer.
func (p polite) Gather(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest]) (*greeterpb.HelloReply, error) {
	var names []string
	for req, err := range in.All() {
		if err != nil {
			return nil, err
		}
		names = append(names, req.GetName())
	}
	return p.reply(strings.Join(names, "+")), nil
}

// Chat implements greeterpb.GreeterServer.
func (p polite) Chat(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest], out *rpc.Sender[greeterpb.HelloReply]) error {
	for req, err := range in.All() {
		if err != nil {
			return err
		}
		if err := out.Send(p.reply(req.GetName())); err != nil {
			return err
		}
	}
	return nil
}

// served returns clients by gRPC and by the frame protocol of a server with the implementations, the first one without a
// version and the second one with version 2.
func served(t *testing.T, first, second greeterpb.GreeterServer) (byGRPC, framed rpc.Caller) {
	t.Helper()
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "port", Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if err := greeterpb.RegisterGreeterServer(srv, first, rpc.Timeout(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	svc, err := greeterpb.NewGreeterService(rpc.Key{Version: "2"}, second)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(srv.Register(svc), srv.Listen()); err != nil {
		t.Fatal(err)
	}
	addr := srv.Addr("port").String()
	g, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	f, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Codec: rpc.CodecProtobuf, Timeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return g, f
}

func named(name string) *greeterpb.HelloRequest { return &greeterpb.HelloRequest{Name: name} }

// TestServe: the generated client calls the generated server, each kind by gRPC and the unary one by the frame protocol.
func TestServe(t *testing.T) {
	byGRPC, framed := served(t, polite{word: "hello"}, polite{word: "howdy"})
	ctx := testkit.Context(t)
	for _, x := range []struct {
		client greeterpb.GreeterClient
		opts   []rpc.CallOption
		word   string
	}{
		{greeterpb.NewGreeterClient(byGRPC), nil, "hello"}, {greeterpb.NewGreeterClientFor(byGRPC, rpc.Key{Version: "2"}), nil, "howdy"},
		{greeterpb.NewGreeterClient(framed), nil, "hello"}, {greeterpb.NewGreeterClientFor(framed, rpc.Key{Version: "2"}), nil, "howdy"},
		{greeterpb.NewGreeterClient(byGRPC), []rpc.CallOption{rpc.CallCodec(rpc.CodecJSON)}, "hello"},
		{greeterpb.NewGreeterClient(framed), []rpc.CallOption{rpc.CallCodec(rpc.CodecJSON)}, "hello"},
	} {
		if reply, err := x.client.SayHello(ctx, named("a"), x.opts...); err != nil || reply.GetMessage() != x.word+" a" {
			t.Errorf("SayHello: %v, %v, want %s", reply, err, x.word)
		}
	}
	for _, opts := range [][]rpc.CallOption{nil, {rpc.CallCodec(rpc.CodecJSON)}} {
		streamAll(t, greeterpb.NewGreeterClient(byGRPC), opts)
	}
	if svc, err := rpc.Describe(ctx, byGRPC.(*rpc.GRPCClient), greeterpb.Greeter_ServiceName); err != nil || svc.Methods().ByName("Chat") == nil {
		t.Errorf("reflection: %v, %v", svc, err)
	}
	client := greeterpb.NewGreeterClient(framed)
	_, count := client.Count(ctx, named("a"))
	_, gather := client.Gather(ctx)
	_, chat := client.Chat(ctx)
	for _, err := range []error{count, gather, chat} {
		if !errors.Is(err, rpc.ErrNoStreams) {
			t.Errorf("a stream by the frame protocol: %v", err)
		}
	}
}

// streamAll makes a call of each kind that streams.
func streamAll(t *testing.T, client greeterpb.GreeterClient, opts []rpc.CallOption) {
	t.Helper()
	ctx := testkit.Context(t)
	replies, err := client.Count(ctx, &greeterpb.HelloRequest{Name: "b", Times: proto.Uint32(3)}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for reply, err := range replies.All() {
		if n++; err != nil || reply.GetMessage() != "hello b" {
			t.Errorf("Count: %v, %v", reply, err)
		}
	}
	if n != 3 {
		t.Errorf("Count has sent %d replies", n)
	}
	for _, names := range [][]string{nil, {"c", "d"}} {
		guests, err := client.Gather(ctx, opts...)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := guests.Send(named(name)); err != nil {
				t.Fatal(err)
			}
		}
		if reply, err := guests.CloseAndRecv(); err != nil || reply.GetMessage() != "hello "+strings.Join(names, "+") {
			t.Errorf("Gather: %v, %v", reply, err)
		}
	}
	talk, err := client.Chat(ctx, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()
	for _, name := range []string{"e", "f"} {
		if err := talk.Send(named(name)); err != nil {
			t.Fatal(err)
		}
		if reply, err := talk.Recv(); err != nil || reply.GetMessage() != "hello "+name {
			t.Errorf("Chat: %v, %v", reply, err)
		}
	}
	if err := talk.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := talk.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("Chat has ended with %v", err)
	}
}

// TestUnimplemented: methods that an implementation does not have are answered UNIMPLEMENTED, and nil is refused.
func TestUnimplemented(t *testing.T) {
	byGRPC, framed := served(t, greeterpb.UnimplementedGreeterServer{}, struct {
		greeterpb.UnimplementedGreeterServer
	}{})
	ctx, client := testkit.Context(t), greeterpb.NewGreeterClient(byGRPC)
	errs := map[string]error{}
	_, errs[greeterpb.Greeter_SayHello_FullMethodName] = client.SayHello(ctx, named("a"))
	replies, err := client.Count(ctx, named("a"))
	if err == nil {
		_, err = replies.Recv()
	}
	errs[greeterpb.Greeter_Count_FullMethodName] = err
	guests, err := client.Gather(ctx)
	if err == nil {
		_, err = guests.CloseAndRecv()
	}
	errs[greeterpb.Greeter_Gather_FullMethodName] = err
	talk, err := client.Chat(ctx)
	if err == nil {
		_, err = talk.Recv()
	}
	errs[greeterpb.Greeter_Chat_FullMethodName] = err
	for method, err := range errs {
		status, ok := errors.AsType[*rpc.Status](err)
		if !ok || status.Code != rpc.CodeUnimplemented || status.Message != method+" is not implemented" {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := greeterpb.NewGreeterClient(framed).SayHello(ctx, named("a")); !errors.Is(err, rpc.ErrApp) || !strings.Contains(err.Error(), "UNIMPLEMENTED") {
		t.Errorf("by the frame protocol: %v", err)
	}
	if err := greeterpb.RegisterGreeterServer(nil, nil); err == nil || !strings.Contains(err.Error(), "NewGreeterService of a nil GreeterServer") {
		t.Errorf("nil: %v", err)
	}
	for key, want := range map[rpc.Key]string{{}: "/demo.Greeter:", {Group: "g", Version: "1"}: "g/demo.Greeter:1", {Interface: "own"}: "/own:"} {
		if svc, err := greeterpb.NewGreeterService(key, polite{}); err != nil || svc.Key().String() != want {
			t.Errorf("%v, %v, want %s", svc, err, want)
		}
	}
}
