package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc"
)

// word is what the examples' service takes and returns.
type word struct {
	Text string `json:"text"`
}

var shouter = rpc.Key{Interface: "examples.Shouter", Version: "1.0"}

// shouterServer serves it on a free port.
func shouterServer() (*rpc.Server, error) {
	svc, err := rpc.NewService(shouter, rpc.Unary("Shout", func(_ context.Context, in *word) (*word, error) {
		return &word{strings.ToUpper(in.Text)}, nil
	}))
	if err != nil {
		return nil, err
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "frame", Addr: "127.0.0.1:0"}}})
	if err != nil {
		return nil, err
	}
	return srv, errors.Join(srv.Register(svc), srv.Listen())
}

func ExampleServer() {
	srv, err := shouterServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("listening:", srv.Addr("frame") != nil)
	_, err = srv.Shutdown(context.Background())
	fmt.Println(err)
	// Output:
	// listening: true
	// <nil>
}

func ExampleInvoke() {
	srv, err := shouterServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{srv.Addr("frame").String()}, Codec: rpc.CodecJSON, Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cl.Close()
	ctx := context.Background()

	answer, err := rpc.Invoke[word](ctx, cl, shouter, "Shout", &word{"hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text)

	_, err = rpc.Invoke[word](ctx, cl, shouter, "Whisper", &word{"hello"})
	fmt.Println("no such method:", errors.Is(err, rpc.ErrNotFound))
	// Output:
	// HELLO
	// no such method: true
}

// Several calls under way at once, on one connection.
func ExampleInvokeAsync() {
	srv, err := shouterServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{srv.Addr("frame").String()}, Codec: rpc.CodecJSON, Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cl.Close()
	ctx := context.Background()
	var calls []*rpc.Future[word]
	for _, text := range []string{"one", "two", "three"} {
		calls = append(calls, rpc.InvokeAsync[word](ctx, cl, shouter, "Shout", &word{text}))
	}
	for _, call := range calls {
		answer, err := call.Wait(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Text)
	}
	// Output:
	// ONE
	// TWO
	// THREE
}
