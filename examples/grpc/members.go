package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/rpc"
)

func run(out io.Writer) error {
	srv, err := server()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = members(ctx, srv.Addr("grpc").String(), out)
	_, serr := srv.Shutdown(ctx)
	return errors.Join(err, serr)
}

// members lets two people talk, and leaves.
func members(ctx context.Context, addr string, out io.Writer) error {
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}})
	if err != nil {
		return err
	}
	defer cl.Close()
	ann, err := rpc.OpenStream(ctx, cl, chat, "Join")
	if err != nil {
		return err
	}
	defer ann.Close()
	bob, err := rpc.OpenStream(ctx, cl, chat, "Join")
	if err != nil {
		return err
	}
	defer bob.Close()
	for _, talk := range []struct {
		who  string
		by   *rpc.CallStream
		hear []*rpc.CallStream
	}{{"ann", ann, []*rpc.CallStream{ann}}, {"bob", bob, []*rpc.CallStream{ann, bob}}} { // bob is a member from his first line on
		if err := rpc.SenderOf[Line](talk.by).Send(wrapperspb.String("I am " + talk.who)); err != nil {
			return err
		}
		for i, by := range talk.hear {
			line, err := rpc.ReceiverOf[Line](by).Recv()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "member %d heard: %s\n", i+1, line.Value)
		}
	}
	if err := rpc.SenderOf[Line](bob).Send(wrapperspb.String("")); err != nil {
		return err
	}
	if _, err = rpc.ReceiverOf[Line](bob).Recv(); err == nil {
		return errors.New("an empty line was taken")
	}
	status, _ := errors.AsType[*rpc.Status](err)
	fmt.Fprintln(out, status.Code, status.Message)
	return ann.CloseSend()
}
