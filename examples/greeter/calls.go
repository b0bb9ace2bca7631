package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/rpc"
)

func run(out io.Writer) error {
	srv, err := server()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	addr := srv.Addr("main").String()
	err = errors.Join(byGRPC(ctx, addr, out), byFrames(ctx, addr, out))
	_, serr := srv.Shutdown(ctx)
	return errors.Join(err, serr)
}

func guest(name string) *greeterpb.HelloRequest { return &greeterpb.HelloRequest{Name: name} }

// byFrames makes a call by the frame protocol, which has calls with one response only.
func byFrames(ctx context.Context, addr string, out io.Writer) error {
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Codec: rpc.CodecProtobuf, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer cl.Close()
	reply, err := greeterpb.NewGreeterClient(cl).SayHello(ctx, guest("Ann"))
	fmt.Fprintln(out, "frames:", reply.GetMessage())
	return err
}

// byGRPC makes calls of all kinds.
func byGRPC(ctx context.Context, addr string, out io.Writer) error {
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer cl.Close()
	client := greeterpb.NewGreeterClient(cl)
	reply, err := client.SayHello(ctx, guest("Ann"))
	fmt.Fprintln(out, "gRPC:", reply.GetMessage())
	return errors.Join(err, count(ctx, client, out), gather(ctx, client, out), chat(ctx, client, out))
}

func count(ctx context.Context, client greeterpb.GreeterClient, out io.Writer) error {
	replies, err := client.Count(ctx, &greeterpb.HelloRequest{Name: "Bob", Times: proto.Uint32(2)})
	if err != nil {
		return err
	}
	defer replies.Close() // if the loop is left early
	for reply, err := range replies.All() {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "count:", reply.GetMessage())
	}
	return nil
}

func gather(ctx context.Context, client greeterpb.GreeterClient, out io.Writer) error {
	guests, err := client.Gather(ctx)
	if err != nil {
		return err
	}
	defer guests.Close()
	for _, name := range []string{"Ann", "Bob", "Eve"} {
		if err := guests.Send(guest(name)); errors.Is(err, io.EOF) {
			break // CloseAndRecv tells why
		} else if err != nil {
			return err
		}
	}
	reply, err := guests.CloseAndRecv()
	fmt.Fprintln(out, "gather:", reply.GetMessage())
	return err
}

func chat(ctx context.Context, client greeterpb.GreeterClient, out io.Writer) error {
	talk, err := client.Chat(ctx)
	if err != nil {
		return err
	}
	defer talk.Close()
	for _, name := range []string{"Ann", "Bob"} {
		if err := talk.Send(guest(name)); err != nil {
			return err
		}
		reply, err := talk.Recv()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "chat:", reply.GetMessage())
	}
	if err := talk.CloseSend(); err != nil {
		return err
	}
	if _, err := talk.Recv(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the chat did not end"), err)
	}
	return nil
}
