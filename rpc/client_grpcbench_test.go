//go:build unix

package rpc

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// BenchmarkGRPC measures unary calls by gRPC, with bodies of 128 bytes: both sides are in the figures.
func BenchmarkGRPC(b *testing.B) {
	key := Key{Interface: "bench.Echoer"}
	svc, err := NewService(key, Unary("Echo", func(_ context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return req, nil }))
	if err != nil {
		b.Fatal(err)
	}
	s := serve(b, newServer(b, ServerOptions{Ports: []PortOptions{{Dispatcher: DispatchDirect}}}), svc)
	for callers, name := range map[int]string{1: "1caller", 64: "64callers"} {
		b.Run(name, func(b *testing.B) {
			cl := newGRPC(b, s, func(o *GRPCOptions) { o.Timeout = time.Minute })
			req := &wrapperspb.BytesValue{Value: make([]byte, 128)}
			benchCallers(b, callers, func() error {
				_, err := Invoke[wrapperspb.BytesValue](context.Background(), cl, key, "Echo", req)
				return err
			})
		})
	}
}
