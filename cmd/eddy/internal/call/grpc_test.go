package call

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/rpc"
)

// TestCallGRPC: methods whose messages the server describes, methods that take JSON, streams, lists and what fails.
func TestCallGRPC(t *testing.T) {
	t.Parallel()
	addr := serveGRPC(t)
	for _, x := range []struct {
		args []string
		code int
		out  string // on stdout, or part of stderr
	}{
		{[]string{"demo.Words", "Upper", `"abc"`}, 0, "\"ABC\"\n"},
		{[]string{"demo.Words", "Split", `"a b"`}, 0, "\"a\"\n\"b\"\n"},
		{[]string{"demo.Words", "Count", `{"n":1}`}, 0, "{\"n\":2}\n"},
		{[]string{"demo.Words", "Raw", "--raw", "abc"}, 0, "abc"},
		{[]string{"grpc.health.v1.Health", "Check", "{}"}, 0, "{\"status\":\"SERVING\"}\n"},
		{[]string{"demo.Words", "Upper", "1"}, exitBad, "the request is no google.protobuf.StringValue"},
		{[]string{"demo.Words", "None", "{}"}, exitNotFound, "no method /demo.Words/None"},
		{[]string{"demo.None", "Upper", "{}"}, exitNotFound, "demo.None"},
		{[]string{"demo.Words", "Upper", "{}", "--oneway"}, exitUsage, "every call by gRPC is answered"},
	} {
		stdout, stderr, code := cmdtest.Run(t, append([]string{"call", "--grpc", "--timeout", "2m", addr}, x.args...)...)
		if code != x.code || code == 0 && stdout != x.out || code != 0 && !strings.Contains(stderr, x.out) {
			t.Errorf("%v: exit code %d, %q %q, want %d %q", x.args, code, stdout, stderr, x.code, x.out)
		}
	}
	stdout, _, code := cmdtest.Run(t, "call", "--grpc", "--timeout", "2m", "--list", addr)
	if code != 0 {
		t.Errorf("--list: exit code %d", code)
	}
	for _, line := range []string{"demo.Words Split google.protobuf.StringValue stream google.protobuf.StringValue", "grpc.health.v1.Health Check"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), line) {
			t.Errorf("%q is not in\n%s", line, stdout)
		}
	}
}

// serveGRPC starts a server that speaks gRPC only, and returns its address.
func serveGRPC(t *testing.T) string {
	t.Helper()
	type number struct {
		N int `json:"n"`
	}
	svc, err := rpc.NewService(rpc.Key{Interface: "demo.Words"},
		rpc.Unary("Upper", func(_ context.Context, req *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(strings.ToUpper(req.Value)), nil
		}),
		rpc.ServerStream("Split", func(_ context.Context, req *wrapperspb.StringValue, out *rpc.Sender[wrapperspb.StringValue]) error {
			for word := range strings.FieldsSeq(req.Value) {
				if err := out.Send(wrapperspb.String(word)); err != nil {
					return err
				}
			}
			return nil
		}),
		rpc.Unary("Count", func(_ context.Context, req *number) (*number, error) { return &number{req.N + 1}, nil }),
		rpc.Raw("Raw", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0", Loops: 1, Protocols: []rpc.Protocol{rpc.ProtocolGRPC}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Register(svc); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.Addr("p").String()
}
