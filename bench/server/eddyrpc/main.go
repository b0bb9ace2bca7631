// Command eddyrpc is the RPC server under measurement, or with -client its callers on one connection.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/rpc"
)

var key = rpc.Key{Interface: "bench.Echo"}

func main() {
	c := target.CallFlags()
	codec := flag.String("codec", "raw", "raw, protobuf, or grpc: protobuf by gRPC")
	dispatcher := flag.String("dispatcher", "all", "of the server")
	threads := flag.Int("threads", 4096, "of the server's pool: more than there are callers")
	flag.Parse()
	err := c.Profiled(func() error {
		if c.Addr != "" {
			return client(c, *codec)
		}
		return server(*dispatcher, *threads)
	})
	if err != nil {
		log.Fatalf("eddyrpc: %v", err)
	}
}

func echo(_ context.Context, req *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return req, nil
}

// repeat sends a request back as many times as the call's metadata says.
func repeat(ctx context.Context, req *wrapperspb.BytesValue, out *rpc.Sender[wrapperspb.BytesValue]) error {
	times, _ := rpc.CallFrom(ctx).Metadata.Get("times")
	n, err := strconv.Atoi(times)
	if err != nil {
		return rpc.Statusf(rpc.CodeInvalidArgument, "times: %v", err)
	}
	for range n {
		if err := out.Send(req); err != nil {
			return err
		}
	}
	return nil
}

func client(c *target.Calls, codec string) error {
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{c.Addr}, Timeout: time.Minute, MaxQueued: 64 << 20}) // 1024 callers with 16 KiB each
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx := context.Background()
	if codec == "grpc" {
		return grpcClient(ctx, c)
	}
	if codec == "raw" {
		return c.Run(func(req []byte) (int, error) {
			resp, err := rpc.Invoke[[]byte](ctx, cl, key, "Raw", req)
			if err != nil {
				return 0, err
			}
			return len(*resp), nil
		})
	}
	return c.Run(func(req []byte) (int, error) {
		resp, err := rpc.Invoke[wrapperspb.BytesValue](ctx, cl, key, "Message", &wrapperspb.BytesValue{Value: req}, rpc.CallCodec(rpc.CodecProtobuf))
		if err != nil {
			return 0, err
		}
		return len(resp.Value), nil
	})
}

func grpcClient(ctx context.Context, c *target.Calls) error {
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + c.Addr}, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer cl.Close()
	return c.Run(func(req []byte) (int, error) {
		resp, err := rpc.Invoke[wrapperspb.BytesValue](ctx, cl, key, "Echo", &wrapperspb.BytesValue{Value: req})
		if err != nil {
			return 0, err
		}
		return len(resp.Value), nil
	})
}

func server(dispatcher string, threads int) error {
	d, err := rpc.ParseDispatcher(dispatcher)
	if err != nil {
		return err
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{
		Logger: slog.New(slog.DiscardHandler),
		Ports: []rpc.PortOptions{{Name: "rpc", Addr: "127.0.0.1:0", Loops: 1, Dispatcher: d, Pool: rpc.PoolOptions{Threads: threads}, Tune: func(srv *eddy.Server) {
			srv.Watermarks.Max = 64 << 20 // 1024 responses of 16 KiB may wait at once
		}}},
	})
	if err != nil {
		return err
	}
	svc, err := rpc.NewService(key,
		rpc.Raw("Raw", func(_ context.Context, body []byte) ([]byte, error) { return body, nil }),
		rpc.Unary("Message", echo), rpc.Unary("Echo", echo), rpc.ServerStream("Repeat", repeat)) // the names that grpc-go's client calls
	if err == nil {
		err = srv.Register(svc)
	}
	if err == nil {
		err = srv.Listen()
	}
	if err != nil {
		return err
	}
	target.Serve(srv.Addr("rpc"))
	return srv.Close()
}
