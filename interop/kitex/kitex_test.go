package kitex

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bytedance/gopkg/cloud/metainfo"
	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/client/callopt"
	"github.com/cloudwego/kitex/pkg/kerrors"
	_ "github.com/cloudwego/kitex/pkg/remote/codec/protobuf/encoding/gzip" // both sides of kitex take it
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/codes"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/metadata"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/status"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/pkg/streaming"
	"github.com/cloudwego/kitex/transport"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
)

const (
	patience = time.Minute // for what is to happen
	nobody   = "nobody: wer da?\nå"
	binary   = "\x00\xff\n"
)

// big is a name that is larger than the windows of HTTP/2 are at first.
var big = strings.Repeat("x", 300<<10)

// detail is what a status carries beside its message.
var detail = durationpb.New(time.Hour)

func guest(name string) *greeterpb.HelloRequest { return &greeterpb.HelloRequest{Name: name} }

func greeting(name string) *greeterpb.HelloReply {
	return &greeterpb.HelloReply{Message: "Hello, " + name}
}

// ending is how the context of a method ended.
type ending struct {
	err      error
	deadline bool // the context had one
}

func endingOf(ctx context.Context, err error) ending {
	_, ok := ctx.Deadline()
	return ending{err, ok}
}

// wantCancelled waits until a method's context has ended because its client has cancelled the call.
func wantCancelled(t *testing.T, ended <-chan ending) {
	t.Helper()
	select {
	case e := <-ended:
		if !errors.Is(e.err, context.Canceled) {
			t.Errorf("a method's context ended by %v", e.err)
		}
	case <-time.After(patience):
		t.Error("no method's context ended")
	}
}

// wantDeadline makes calls with more and more time, until one of them has begun before its deadline. The context of its
// method has that deadline. It ends by the deadline or by the client's RST_STREAM, which may be faster.
func wantDeadline(t *testing.T, ended <-chan ending, call func(timeout time.Duration)) {
	t.Helper()
	for timeout := 50 * time.Millisecond; timeout < patience; timeout *= 2 {
		call(timeout)
		select {
		case e := <-ended:
			if !e.deadline || !errors.Is(e.err, context.DeadlineExceeded) && !errors.Is(e.err, context.Canceled) {
				t.Errorf("a method's context ended by %v, deadline %v", e.err, e.deadline)
			}
			return
		case <-time.After(timeout):
		}
	}
	t.Error("no method has begun")
}

// greeter is the service on our side.
type greeter struct {
	ended chan ending
	greeterpb.UnimplementedGreeterServer
}

func (g greeter) SayHello(ctx context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	switch req.Name {
	case "":
		return nil, &rpc.Status{Code: rpc.CodeInvalidArgument, Message: nobody, Details: []proto.Message{detail}}
	case "late":
		<-ctx.Done()
		g.ended <- endingOf(ctx, ctx.Err())
		return nil, ctx.Err()
	case "meta":
		in := rpc.CallFrom(ctx).Metadata
		text, _ := in.Get("x-text")
		bin, _ := in.Get("x-bytes-bin")
		tenant, _ := in.Get("rpc-persist-tenant")
		err := errors.Join(rpc.SetHeader(ctx, rpc.Pair{Key: "x-head", Value: text}, rpc.Pair{Key: "x-head-bin", Value: bin}),
			rpc.SetTrailer(ctx, rpc.Pair{Key: "x-tail", Value: tenant}))
		if err != nil {
			return nil, err
		}
	}
	return greeting(req.Name), nil
}

func (g greeter) Count(_ context.Context, req *greeterpb.HelloRequest, out *rpc.Sender[greeterpb.HelloReply]) error {
	for range req.GetTimes() {
		if err := out.Send(greeting(req.Name)); err != nil {
			return err
		}
	}
	if req.Name == "" {
		return rpc.Statusf(rpc.CodeNotFound, nobody)
	}
	return nil
}

func (g greeter) Gather(_ context.Context, in *rpc.Receiver[greeterpb.HelloRequest]) (*greeterpb.HelloReply, error) {
	var names []string
	for req, err := range in.All() {
		if err != nil {
			return nil, err
		}
		names = append(names, req.Name)
	}
	return greeting(strings.Join(names, ", ")), nil
}

func (g greeter) Chat(ctx context.Context, in *rpc.Receiver[greeterpb.HelloRequest], out *rpc.Sender[greeterpb.HelloReply]) error {
	for req, err := range in.All() {
		if err == nil {
			err = out.Send(greeting(req.Name))
		}
		if err != nil {
			<-ctx.Done()
			g.ended <- endingOf(ctx, ctx.Err())
			return err
		}
	}
	return nil
}

// ours starts our server, and returns its service and its address.
func ours(t *testing.T, opts ...rpc.RegisterOption) (greeter, string) {
	t.Helper()
	g := greeter{ended: make(chan ending, 16)}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(greeterpb.RegisterGreeterServer(srv, g, opts...), srv.Listen()); err != nil {
		t.Fatal(err)
	}
	return g, srv.Addr("port0").String()
}

// theirClient is kitex's client of a service.
type theirClient struct{ client.Client }

func newTheirClient(t *testing.T, info *serviceinfo.ServiceInfo, addr string) theirClient {
	t.Helper()
	cl, err := client.NewClient(info, client.WithDestService(greeterpb.Greeter_ServiceName), client.WithHostPorts(addr),
		client.WithTransportProtocol(transport.GRPC))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return theirClient{cl}
}

func (cl theirClient) sayHello(ctx context.Context, name string, opts ...callopt.Option) (*greeterpb.HelloReply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp := new(greeterpb.HelloReply)
	return resp, cl.Call(client.NewCtxWithCallOptions(ctx, opts), "SayHello", guest(name), resp)
}

func (cl theirClient) open(ctx context.Context, t *testing.T, method string) streaming.ClientStream {
	t.Helper()
	s, err := cl.Client.(client.Streaming).StreamX(ctx, method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKitexClient: kitex's client calls our server, with gzip and without.
func TestKitexClient(t *testing.T) {
	_, addr := ours(t)
	cl := newTheirClient(t, info("Greeter"), addr)
	for _, compressor := range []string{"identity", "gzip"} {
		zip := callopt.WithGRPCCompressor(compressor)
		for _, name := range []string{"you", big} {
			if resp, err := cl.sayHello(t.Context(), name, zip); err != nil || !proto.Equal(resp, greeting(name)) {
				t.Errorf("%s: %.40v, %v", compressor, resp, err)
			}
		}
		_, err := cl.sayHello(t.Context(), "", zip)
		s, ok := status.FromError(err)
		if !ok || s.Code() != codes.InvalidArgument || s.Message() != nobody {
			t.Errorf("%s: an error: %v", compressor, err)
		} else if d := s.Details(); len(d) != 1 || !proto.Equal(d[0].(proto.Message), detail) {
			t.Errorf("%s: its details: %v", compressor, d)
		}
	}
	if _, err := newTheirClient(t, info("Nobody"), addr).sayHello(t.Context(), "you"); status.Code(err) != codes.Unimplemented {
		t.Errorf("no such service: %v", err)
	}
}

// TestKitexClientDeadline: kitex's client tells our server its deadline, and understands that of the server.
func TestKitexClientDeadline(t *testing.T) {
	g, addr := ours(t)
	cl := newTheirClient(t, info("Greeter"), addr)
	wantDeadline(t, g.ended, func(timeout time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		// kitex's own timer has an error of its own, which is no status. The server's answer may be faster.
		if _, err := cl.sayHello(ctx, "late"); !errors.Is(err, kerrors.ErrRPCTimeout) && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the client's: %v", err)
		}
	})
	_, addr = ours(t, rpc.Timeout(50*time.Millisecond))
	if _, err := newTheirClient(t, info("Greeter"), addr).sayHello(t.Context(), "late"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the server's: %v", err)
	}
}

// TestKitexClientMetadata: our server gets the metadata and the metainfo of kitex's client, and answers with metadata.
func TestKitexClientMetadata(t *testing.T) {
	_, addr := ours(t)
	var head, tail metadata.MD
	ctx := nphttp2.GRPCTrailer(nphttp2.GRPCHeader(t.Context(), &head), &tail)
	ctx = metadata.AppendToOutgoingContext(ctx, "x-text", "a text", "x-bytes-bin", binary)
	ctx = metainfo.WithPersistentValue(ctx, "TENANT", "acme")
	if _, err := newTheirClient(t, info("Greeter"), addr).sayHello(ctx, "meta"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(head["x-head"], []string{"a text"}) || !slices.Equal(head["x-head-bin"], []string{binary}) || !slices.Equal(tail["x-tail"], []string{"acme"}) {
		t.Errorf("header %q, trailer %q", head, tail)
	}
}

// TestKitexClientStreams: kitex's client calls methods of our server that stream.
func TestKitexClientStreams(t *testing.T) {
	_, addr := ours(t)
	cl := newTheirClient(t, info("Greeter"), addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	for name, want := range map[string]codes.Code{big: codes.OK, "": codes.NotFound} {
		count := streaming.NewServerStreamingClient[greeterpb.HelloReply](cl.open(ctx, t, "Count"))
		if err := errors.Join(count.SendMsg(ctx, &greeterpb.HelloRequest{Name: name, Times: proto.Uint32(5)}), count.CloseSend(ctx)); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if resp, err := count.Recv(ctx); err != nil || !proto.Equal(resp, greeting(name)) {
				t.Fatalf("Count: %.40v, %v", resp, err)
			}
		}
		if _, err := count.Recv(ctx); errors.Is(err, io.EOF) != (want == codes.OK) || want != codes.OK && status.Code(err) != want {
			t.Errorf("the end of Count: %v, want %v", err, want)
		}
	}

	gather := streaming.NewClientStreamingClient[greeterpb.HelloRequest, greeterpb.HelloReply](cl.open(ctx, t, "Gather"))
	for _, name := range []string{"Ann", big, "Bob"} {
		if err := gather.Send(ctx, guest(name)); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := gather.CloseAndRecv(ctx); err != nil || !proto.Equal(resp, greeting("Ann, "+big+", Bob")) {
		t.Errorf("Gather: %.40v, %v", resp, err)
	}
}

// TestKitexClientChat: kitex's client calls a method of our server that streams both ways, to its end and to a cancellation.
func TestKitexClientChat(t *testing.T) {
	g, addr := ours(t)
	cl := newTheirClient(t, info("Greeter"), addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(ctx)
		chat := streaming.NewBidiStreamingClient[greeterpb.HelloRequest, greeterpb.HelloReply](cl.open(ctx, t, "Chat"))
		for _, name := range []string{"Ann", big, "Bob"} {
			if err := chat.Send(ctx, guest(name)); err != nil {
				t.Fatal(err)
			}
			if resp, err := chat.Recv(ctx); err != nil || !proto.Equal(resp, greeting(name)) {
				t.Fatalf("Chat: %.40v, %v", resp, err)
			}
		}
		if !cancelled {
			if err := chat.CloseSend(ctx); err != nil {
				t.Error(err)
			}
			if _, err := chat.Recv(ctx); !errors.Is(err, io.EOF) {
				t.Errorf("the end of Chat: %v", err)
			}
		}
		cancel()
		if cancelled {
			// kitex notices the cancellation in Recv. Without a call of Recv it takes up to five seconds.
			if _, err := chat.Recv(ctx); status.Code(err) != codes.Canceled {
				t.Errorf("Chat, cancelled: %v", err)
			}
			wantCancelled(t, g.ended)
		}
	}
}
