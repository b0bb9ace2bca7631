package kitex

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bytedance/gopkg/cloud/metainfo"
	"github.com/cloudwego/kitex/pkg/kerrors"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/codes"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/metadata"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/status"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/pkg/streaming"
	"github.com/cloudwego/kitex/server"
	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
)

// info describes the service of greeter.proto to kitex by hand, under a name.
func info(name string) *serviceinfo.ServiceInfo {
	method := func(mode serviceinfo.StreamingMode, f func(g *theirs, ctx context.Context, s streaming.ServerStream) error) serviceinfo.MethodInfo {
		return serviceinfo.NewMethodInfo(func(ctx context.Context, handler, args, _ any) error {
			return f(handler.(*theirs), ctx, args.(*streaming.Args).ServerStream)
		}, nil, nil, false, serviceinfo.WithStreamingMode(mode))
	}
	return &serviceinfo.ServiceInfo{
		ServiceName:  name,
		PayloadCodec: serviceinfo.Protobuf, // of google.golang.org/protobuf's messages, as they are
		Extra:        map[string]any{serviceinfo.PackageName: "demo"},
		Methods: map[string]serviceinfo.MethodInfo{
			"SayHello": method(serviceinfo.StreamingUnary, (*theirs).sayHello),
			"Count":    method(serviceinfo.StreamingServer, (*theirs).count),
			"Gather":   method(serviceinfo.StreamingClient, (*theirs).gather),
			"Chat":     method(serviceinfo.StreamingBidirectional, (*theirs).chat),
		},
	}
}

// theirs is the service on kitex's side. The Err of a context that a client has cancelled is a status there, so that the
// methods tell its Cause.
type theirs struct{ ended chan ending }

func (g *theirs) sayHello(ctx context.Context, s streaming.ServerStream) error {
	req := new(greeterpb.HelloRequest)
	if err := s.RecvMsg(ctx, req); err != nil {
		return err
	}
	switch req.Name {
	case "":
		st, err := status.New(codes.InvalidArgument, nobody).WithDetails(detail)
		if err != nil {
			return err
		}
		return st.Err()
	case "plain":
		return errors.New("a plain error")
	case "business":
		return kerrors.NewGRPCBizStatusError(404, "no such guest")
	case "late":
		<-ctx.Done()
		g.ended <- endingOf(ctx, context.Cause(ctx))
		return ctx.Err()
	case "meta":
		in, _ := metadata.FromIncomingContext(ctx)
		tenant, _ := metainfo.GetPersistentValue(ctx, "TENANT")
		head := streaming.Header{"x-head": strings.Join(in["x-text"], ","), "x-head-bin": strings.Join(in["x-bytes-bin"], ",")}
		if err := errors.Join(s.SetHeader(head), s.SetTrailer(streaming.Trailer{"x-tail": tenant})); err != nil {
			return err
		}
	}
	return s.SendMsg(ctx, greeting(req.Name))
}

func (g *theirs) count(ctx context.Context, s streaming.ServerStream) error {
	req := new(greeterpb.HelloRequest)
	if err := s.RecvMsg(ctx, req); err != nil {
		return err
	}
	for range req.GetTimes() {
		if err := s.SendMsg(ctx, greeting(req.Name)); err != nil {
			return err
		}
	}
	if req.Name == "" {
		return status.Err(codes.NotFound, nobody)
	}
	return nil
}

func (g *theirs) gather(ctx context.Context, s streaming.ServerStream) error {
	in := streaming.NewClientStreamingServer[greeterpb.HelloRequest, greeterpb.HelloReply](s)
	var names []string
	for {
		req, err := in.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return in.SendAndClose(ctx, greeting(strings.Join(names, ", ")))
		}
		if err != nil {
			return err
		}
		names = append(names, req.Name)
	}
}

func (g *theirs) chat(ctx context.Context, s streaming.ServerStream) error {
	talk := streaming.NewBidiStreamingServer[greeterpb.HelloRequest, greeterpb.HelloReply](s)
	for {
		req, err := talk.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = talk.Send(ctx, greeting(req.Name))
		}
		if err != nil {
			<-ctx.Done()
			g.ended <- endingOf(ctx, context.Cause(ctx))
			return err
		}
	}
}

// foreign starts kitex's server, and returns its service and a client of ours.
func foreign(t *testing.T, zip bool) (*theirs, *rpc.GRPCClient) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &theirs{ended: make(chan ending, 16)}
	quit, done := make(chan error), make(chan error, 1)
	srv := server.NewServer(server.WithListener(l), server.WithExitSignal(func() <-chan error { return quit }))
	if err := srv.RegisterService(info("Greeter"), g); err != nil {
		t.Fatal(err)
	}
	go func() { done <- srv.Run() }()
	t.Cleanup(func() {
		close(quit)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + l.Addr().String()}, Gzip: zip, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, cl
}

// TestKitexServer: our client calls kitex's server, with gzip and without.
func TestKitexServer(t *testing.T) {
	for _, zip := range []bool{false, true} {
		_, cl := foreign(t, zip)
		client := greeterpb.NewGreeterClient(cl)
		for _, name := range []string{"you", big} {
			if resp, err := client.SayHello(t.Context(), guest(name)); err != nil || !proto.Equal(resp, greeting(name)) {
				t.Errorf("gzip %v: %.40v, %v", zip, resp, err)
			}
		}
		// kitex appends to the messages of errors. Errors that are no status are INTERNAL. The code of a business error is
		// metadata beside INTERNAL.
		for name, want := range map[string]*rpc.Status{
			"":         {Code: rpc.CodeInvalidArgument, Message: nobody + " [biz error]", Details: []proto.Message{detail}},
			"plain":    {Code: rpc.CodeInternal, Message: "a plain error [biz error]"},
			"business": {Code: rpc.CodeInternal, Message: "no such guest"},
		} {
			var tail rpc.Metadata
			_, err := client.SayHello(t.Context(), guest(name), rpc.CallTrailer(&tail))
			s, ok := errors.AsType[*rpc.Status](err)
			if !ok || s.Code != want.Code || s.Message != want.Message || !slices.EqualFunc(s.Details, want.Details, proto.Equal) {
				t.Errorf("gzip %v, %q: %v", zip, name, err)
			}
			if code, ok := tail.Get("biz-status"); ok != (name == "business") || ok && code != "404" {
				t.Errorf("gzip %v, %q: %q", zip, name, tail)
			}
		}
	}
}

// TestKitexServerUnknown: kitex's server answers with its own numbers for what it lacks, where gRPC has UNIMPLEMENTED. 1 is
// CANCELLED in gRPC, and 20 is no code.
func TestKitexServerUnknown(t *testing.T) {
	_, cl := foreign(t, false)
	for key, want := range map[string]rpc.Code{greeterpb.Greeter_ServiceName: 1, "demo.Nobody": 20} {
		if _, err := rpc.Invoke[greeterpb.HelloReply](t.Context(), cl, rpc.Key{Interface: key}, "Absent", guest("you")); rpc.CodeOf(err) != want {
			t.Errorf("%s: %v, want %v", key, err, want)
		}
	}
}

// TestKitexServerDeadline: our client tells kitex's server its deadline.
func TestKitexServerDeadline(t *testing.T) {
	g, cl := foreign(t, false)
	client := greeterpb.NewGreeterClient(cl)
	wantDeadline(t, g.ended, func(timeout time.Duration) {
		if _, err := client.SayHello(t.Context(), guest("late"), rpc.CallTimeout(timeout)); rpc.CodeOf(err) != rpc.CodeDeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}

// TestKitexServerMetadata: kitex's server gets metadata and metainfo of our client, and answers with metadata.
func TestKitexServerMetadata(t *testing.T) {
	_, cl := foreign(t, false)
	var head, tail rpc.Metadata
	meta := rpc.CallMetadata(rpc.Pair{Key: "x-text", Value: "a text"}, rpc.Pair{Key: "x-bytes-bin", Value: binary}, rpc.Pair{Key: "rpc-persist-tenant", Value: "acme"})
	if _, err := greeterpb.NewGreeterClient(cl).SayHello(t.Context(), guest("meta"), meta, rpc.CallHeader(&head), rpc.CallTrailer(&tail)); err != nil {
		t.Fatal(err)
	}
	text, _ := head.Get("x-head")
	bin, _ := head.Get("x-head-bin")
	tenant, _ := tail.Get("x-tail")
	if text != "a text" || bin != binary || tenant != "acme" {
		t.Errorf("header %q, trailer %q", head, tail)
	}
}

// TestKitexServerStreams: our client calls methods of kitex's server that stream.
func TestKitexServerStreams(t *testing.T) {
	_, cl := foreign(t, false)
	client := greeterpb.NewGreeterClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	for name, want := range map[string]rpc.Code{big: rpc.CodeOK, "": rpc.CodeNotFound} {
		count, err := client.Count(ctx, &greeterpb.HelloRequest{Name: name, Times: proto.Uint32(5)})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for resp, err := range count.All() {
			if n++; err != nil && n == 6 && rpc.CodeOf(err) == want {
				continue
			}
			if err != nil || !proto.Equal(resp, greeting(name)) {
				t.Errorf("Count: %.40v, %v", resp, err)
			}
		}
		if end := 5 + min(int(want), 1); n != end {
			t.Errorf("Count: %d responses and errors, want %d", n, end)
		}
	}

	gather, err := client.Gather(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Ann", big, "Bob"} {
		if err := gather.Send(guest(name)); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := gather.CloseAndRecv(); err != nil || !proto.Equal(resp, greeting("Ann, "+big+", Bob")) {
		t.Errorf("Gather: %.40v, %v", resp, err)
	}
}

// TestKitexServerChat: our client calls a method of kitex's server that streams both ways, to its end and to a cancellation.
func TestKitexServerChat(t *testing.T) {
	g, cl := foreign(t, false)
	client := greeterpb.NewGreeterClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, cancelled := range []bool{false, true} {
		chat, err := client.Chat(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Ann", big, "Bob"} {
			if err := chat.Send(guest(name)); err != nil {
				t.Fatal(err)
			}
			if resp, err := chat.Recv(); err != nil || !proto.Equal(resp, greeting(name)) {
				t.Fatalf("Chat: %.40v, %v", resp, err)
			}
		}
		if cancelled {
			chat.Close()
			wantCancelled(t, g.ended)
		} else if err := chat.CloseSend(); err != nil {
			t.Error(err)
		} else if _, err := chat.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end of Chat: %v", err)
		}
	}
}
