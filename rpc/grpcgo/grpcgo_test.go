package grpcgo

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/go-eddy/eddy/rpc"
)

// shows tells what a method finds in its context.
type shows struct {
	testgrpc.UnimplementedTestServiceServer
}

func (shows) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	from, ok := peer.FromContext(ctx)
	method, _ := grpc.Method(ctx)
	text := strings.Join(md.Get("x-many"), ",") + " " + method
	if !ok || !strings.HasPrefix(from.Addr.String(), "127.0.0.1:") {
		text += " without a peer"
	}
	return &testgrpc.SimpleResponse{Payload: &testgrpc.Payload{Body: []byte(text)}}, errors.Join(
		grpc.SetHeader(ctx, metadata.Pairs("x-early", "1")), grpc.SetTrailer(ctx, metadata.Pairs("x-late", "2")))
}

func (shows) FullDuplexCall(s testgrpc.TestService_FullDuplexCallServer) error {
	return s.SendHeader(metadata.Pairs("x-early", "3"))
}

// TestContext: what methods find in their contexts, and the interceptors around them.
func TestContext(t *testing.T) {
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	var mu sync.Mutex
	var seen []string
	saw := func(method string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method)
	}
	r := On(srv)
	r.Unary = func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		saw(info.FullMethod)
		return next(ctx, req)
	}
	r.Stream = func(impl any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		saw(info.FullMethod)
		return next(impl, s)
	}
	testgrpc.RegisterTestServiceServer(r, shows{})
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(srv.Addr("p").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cl := testgrpc.NewTestServiceClient(conn)
	var header, trailer metadata.MD
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-many", "a", "x-many", "b")
	resp, err := cl.UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if got := string(resp.GetPayload().GetBody()); err != nil || got != "a,b /grpc.testing.TestService/UnaryCall" {
		t.Errorf("%q, %v", got, err)
	}
	if header.Get("x-early")[0] != "1" || trailer.Get("x-late")[0] != "2" {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	s, err := cl.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if header, err = s.Header(); err != nil || header.Get("x-early")[0] != "3" {
		t.Errorf("header %v, %v", header, err)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("a stream without an end")
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(seen, " "); got != "/grpc.testing.TestService/UnaryCall /grpc.testing.TestService/FullDuplexCall" {
		t.Errorf("%q", got)
	}
}

// TestRegisterRefuses: what implements nothing, and what is registered already.
func TestRegisterRefuses(t *testing.T) {
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	r := On(srv)
	if _, err := r.Service(&testgrpc.TestService_ServiceDesc, 1); err == nil || !strings.Contains(err.Error(), "int does not implement grpc_testing.TestServiceServer") {
		t.Errorf("%v", err)
	}
	r.RegisterService(&testgrpc.TestService_ServiceDesc, shows{})
	defer func() {
		if v := recover(); v == nil {
			t.Error("a service was registered twice")
		}
	}()
	r.RegisterService(&testgrpc.TestService_ServiceDesc, shows{})
}
