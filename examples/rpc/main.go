// Command rpc serves a greeter and calls it: unary, asynchronous and one-way, on a server with a pool for each service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
)

// HelloRequest is the argument of Hello.
type HelloRequest struct {
	Name string `json:"name"`
}

// HelloResponse is the result of Hello.
type HelloResponse struct {
	Message string `json:"message"`
}

var greeter = rpc.Key{Interface: "demo.Greeter", Version: "1.0"}

// server serves the greeter. It passes what callers log to heard.
func server(heard func(string)) (*rpc.Server, error) {
	svc, err := rpc.NewService(greeter,
		rpc.Unary("Hello", func(_ context.Context, req *HelloRequest) (*HelloResponse, error) {
			if req.Name == "" {
				return nil, &frame.StatusError{Status: frame.StatusBadRequest, Message: "the name is missing"}
			}
			return &HelloResponse{"Hello, " + req.Name + "!"}, nil
		}),
		rpc.OneWay("Log", func(_ context.Context, line *string) error {
			heard(*line)
			return nil
		}))
	if err != nil {
		return nil, err
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{
		Isolation: rpc.PerService,
		Ports:     []rpc.PortOptions{{Name: "frame", Addr: "127.0.0.1:0"}},
	})
	if err != nil {
		return nil, err
	}
	return srv, errors.Join(srv.Register(svc, rpc.Timeout(3*time.Second)), srv.Listen())
}

// calls makes one call of each form. It stays connected until the one-way call was heard, because the end of a connection ends what waits on it.
func calls(ctx context.Context, addr string, heard <-chan string, out io.Writer) error {
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Codec: rpc.CodecJSON, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer cl.Close()

	resp, err := rpc.Invoke[HelloResponse](ctx, cl, greeter, "Hello", &HelloRequest{"you"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, resp.Message)

	future := rpc.InvokeAsync[HelloResponse](ctx, cl, greeter, "Hello", &HelloRequest{"later"})
	if resp, err = future.Wait(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, resp.Message)

	_, err = rpc.Invoke[HelloResponse](ctx, cl, greeter, "Hello", &HelloRequest{})
	if e, ok := errors.AsType[*rpc.Error](err); ok && errors.Is(err, rpc.ErrBadRequest) {
		fmt.Fprintln(out, e.Status, e.Message)
	}
	if err := rpc.Send(ctx, cl, greeter, "Log", "and goodbye"); err != nil {
		return err
	}
	select {
	case line := <-heard:
		fmt.Fprintln(out, "heard:", line)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer) error {
	heard := make(chan string, 1)
	srv, err := server(func(line string) { heard <- line })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = calls(ctx, srv.Addr("frame").String(), heard, out)
	_, serr := srv.Shutdown(ctx)
	return errors.Join(err, serr)
}
