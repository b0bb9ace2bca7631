package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/grpcgo"
)

// cases are the interoperability tests of the gRPC project that need no cloud, by the names that it gives them.
var cases = map[string]func(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption){
	"empty_unary":                 plain(interop.DoEmptyUnaryCall),
	"large_unary":                 plain(interop.DoLargeUnaryCall),
	"client_streaming":            plain(interop.DoClientStreaming),
	"server_streaming":            plain(interop.DoServerStreaming),
	"ping_pong":                   plain(interop.DoPingPong),
	"empty_stream":                plain(interop.DoEmptyStream),
	"timeout_on_sleeping_server":  plain(interop.DoTimeoutOnSleepingServer),
	"cancel_after_begin":          plain(interop.DoCancelAfterBegin),
	"cancel_after_first_response": plain(interop.DoCancelAfterFirstResponse),
	"custom_metadata":             plain(interop.DoCustomMetadata),
	"status_code_and_message":     plain(interop.DoStatusCodeAndMessage),
	"special_status_message":      plain(interop.DoSpecialStatusMessage),
	"unimplemented_method": func(ctx context.Context, conn *grpc.ClientConn, _ ...grpc.CallOption) {
		interop.DoUnimplementedMethod(ctx, conn)
	},
	"unimplemented_service": func(ctx context.Context, conn *grpc.ClientConn, _ ...grpc.CallOption) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	},
}

func plain(f func(ctx context.Context, c testgrpc.TestServiceClient, options ...grpc.CallOption)) func(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) {
	return func(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) {
		f(ctx, testgrpc.NewTestServiceClient(conn), options...)
	}
}

// serve starts a server with grpc-go's own test service and returns its address.
func serve(t *testing.T, port rpc.PortOptions) string {
	t.Helper()
	port.Addr, port.MaxPayload = "127.0.0.1:0", 4<<20 // what grpc-go takes
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{port}})
	if err != nil {
		t.Fatal(err)
	}
	testgrpc.RegisterTestServiceServer(grpcgo.On(srv), interop.NewTestServer())
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv.Addr(port.Name).String()
}

func dial(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestGRPCClient: the gRPC project's cases, with grpc-go as the client and Eddy as the server. A case that fails ends its
// process, so each runs in one of its own.
func TestGRPCClient(t *testing.T) {
	if name := os.Getenv("INTEROP_CASE"); name != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var options []grpc.CallOption
		if os.Getenv("INTEROP_GZIP") != "" {
			options = append(options, grpc.UseCompressor(gzip.Name))
		}
		cases[name](ctx, dial(t, os.Getenv("INTEROP_ADDR")), options...)
		return
	}
	for _, d := range []rpc.Dispatcher{rpc.DispatchAll, rpc.DispatchDirect, rpc.DispatchMessage, rpc.DispatchExecution, rpc.DispatchConnection} {
		for _, compressed := range []string{"", "1"} {
			t.Run(fmt.Sprintf("%v gzip=%s", d, compressed), func(t *testing.T) {
				runCases(t, serve(t, rpc.PortOptions{Name: "p", Dispatcher: d}), compressed)
			})
		}
	}
}

// runCases runs all cases against the server at addr.
func runCases(t *testing.T, addr, compressed string) {
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestGRPCClient$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), "INTEROP_CASE="+name, "INTEROP_ADDR="+addr, "INTEROP_GZIP="+compressed)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
