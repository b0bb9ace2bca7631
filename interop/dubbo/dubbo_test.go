package dubbo

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/common"
	"dubbo.apache.org/dubbo-go/v3/common/constant"
	_ "dubbo.apache.org/dubbo-go/v3/imports"
	"dubbo.apache.org/dubbo-go/v3/protocol"
	"dubbo.apache.org/dubbo-go/v3/protocol/triple/triple_protocol"
	"dubbo.apache.org/dubbo-go/v3/server"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo"
)

// greeter is the service on our side.
type greeter struct {
	greeterpb.UnimplementedGreeterServer
	name string
}

func (g greeter) SayHello(ctx context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	switch req.Name {
	case "":
		return nil, rpc.Statusf(rpc.CodeInvalidArgument, "nobody is there")
	case "late":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	meta, _ := rpc.CallFrom(ctx).Metadata.Get("x-mine")
	return &greeterpb.HelloReply{Message: g.name + req.Name + meta}, nil
}

// serve starts our server with services, and returns its address.
func serve(t *testing.T, register func(srv *rpc.Server) error) string {
	t.Helper()
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:0", Front: dubbo.Front(dubbo.Options{})}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	return srv.Addr("port0").String()
}

// greeters registers services of two groups.
func greeters(srv *rpc.Server) error {
	for _, key := range []rpc.Key{{}, {Group: "g", Version: "1.0"}} {
		svc, err := greeterpb.NewGreeterService(key, greeter{name: key.Group + "Hello, "})
		if err == nil {
			err = srv.Register(svc)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDubboGoClient: dubbo-go's client calls our server by Triple, with protobuf and with JSON, services of groups and versions.
func TestDubboGoClient(t *testing.T) {
	addr := serve(t, greeters)
	for name, c := range map[string]struct {
		opts []client.ReferenceOption
		want string
	}{
		"protobuf":            {nil, "Hello, you"},
		"JSON":                {[]client.ReferenceOption{client.WithSerializationJSON()}, "Hello, you"},
		"a group and version": {[]client.ReferenceOption{client.WithGroup("g"), client.WithVersion("1.0")}, "gHello, you"},
	} {
		t.Run(name, func(t *testing.T) {
			cl, err := client.NewClient(client.WithClientURL("tri://" + addr))
			if err != nil {
				t.Fatal(err)
			}
			conn, err := cl.DialWithInfo(greeterpb.Greeter_ServiceName, &client.ClientInfo{InterfaceName: greeterpb.Greeter_ServiceName, MethodNames: []string{"SayHello"}}, c.opts...)
			if err != nil {
				t.Fatal(err)
			}
			call := func(timeout time.Duration, name string) (*greeterpb.HelloReply, error) {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				resp := new(greeterpb.HelloReply)
				return resp, conn.CallUnary(ctx, []any{&greeterpb.HelloRequest{Name: name}}, resp, "SayHello")
			}
			if resp, err := call(time.Minute, "you"); err != nil || resp.Message != c.want {
				t.Errorf("%q, %v", resp.Message, err)
			}
			if _, err := call(time.Minute, ""); err == nil || triple_protocol.CodeOf(err) != triple_protocol.CodeInvalidArgument || !strings.Contains(err.Error(), "nobody is there") {
				t.Errorf("an error: %v", err)
			}
			if _, err := call(50*time.Millisecond, "late"); err == nil || triple_protocol.CodeOf(err) != triple_protocol.CodeDeadlineExceeded {
				t.Errorf("a deadline: %v", err)
			}
		})
	}
}

// Named is the service on dubbo-go's side.
type Named struct{}

// Reference implements dubbo-go's way to name a service.
func (*Named) Reference() string { return greeterpb.Greeter_ServiceName }

// SayHello is the method of dubbo-go's side.
func (*Named) SayHello(_ context.Context, req *greeterpb.HelloRequest) (*greeterpb.HelloReply, error) {
	if req.Name == "" {
		return nil, triple_protocol.NewError(triple_protocol.CodeNotFound, errors.New("nobody is there"))
	}
	return &greeterpb.HelloReply{Message: "Hello, " + req.Name}, nil
}

// foreign starts dubbo-go's server, which goes on to the end of the program, and returns its address.
func foreign(t *testing.T, opts ...server.ServerOption) string {
	t.Helper()
	addr, port := freePort(t)
	srv, err := server.NewServer(append(opts, server.WithServerProtocol(protocol.WithTriple(), protocol.WithIp("127.0.0.1"), protocol.WithPort(port)))...)
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Register(new(Named), &common.ServiceInfo{
		InterfaceName: greeterpb.Greeter_ServiceName,
		ServiceType:   (*greeterpb.GreeterServer)(nil),
		Methods: []common.MethodInfo{{
			Name: "SayHello", Type: constant.CallUnary, ReqInitFunc: func() any { return new(greeterpb.HelloRequest) },
			MethodFunc: func(ctx context.Context, args []any, handler any) (any, error) {
				resp, err := handler.(*Named).SayHello(ctx, args[0].(*greeterpb.HelloRequest))
				if err != nil {
					return nil, err
				}
				return triple_protocol.NewResponse(resp), nil
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve() }()
	return addr
}

// freePort is an address for dubbo-go's server, which takes a number only.
func freePort(t *testing.T) (addr string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String(), l.Addr().(*net.TCPAddr).Port
}

// awaitServer makes a call again until the server listens.
func awaitServer(call func() error) {
	for range 50 {
		if rpc.CodeOf(call()) != rpc.CodeUnavailable {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestDubboGoServer: our client calls dubbo-go's server by Triple.
func TestDubboGoServer(t *testing.T) {
	addr := foreign(t)
	for _, codec := range []rpc.Codec{rpc.CodecProtobuf, rpc.CodecJSON} {
		cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: time.Minute, Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cl.Close() })
		g := greeterpb.NewGreeterClient(cl)
		var resp *greeterpb.HelloReply
		awaitServer(func() error {
			resp, err = g.SayHello(t.Context(), &greeterpb.HelloRequest{Name: "you"})
			return err
		})
		if err != nil || resp.Message != "Hello, you" {
			t.Errorf("%v: %v, %v", codec, resp, err)
		}
		_, err = g.SayHello(t.Context(), &greeterpb.HelloRequest{})
		if s, ok := errors.AsType[*rpc.Status](err); !ok || s.Code != rpc.CodeNotFound || !strings.Contains(s.Message, "nobody is there") {
			t.Errorf("%v: an error: %v", codec, err)
		}
	}
}
