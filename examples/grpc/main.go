// Command grpc serves a chat room by gRPC and joins it twice: a stream both ways, in which slow members lose lines and hold up nobody.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"sync"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/rpc"
)

// Line is what somebody says. A message of your own .proto stands here as well.
type Line = wrapperspb.StringValue

var chat = rpc.Key{Interface: "demo.Chat"}

// backlog is how many lines wait for a member whose connection is slow; further ones are lost for it.
const backlog = 64

// room hands each line to every member.
type room struct {
	mu      sync.Mutex
	members map[chan *Line]bool
}

// join serves one member until it leaves or its connection ends.
func (r *room) join(ctx context.Context, in *rpc.Receiver[Line], out *rpc.Sender[Line]) error {
	ctx, leave := context.WithCancel(ctx)
	lines := make(chan *Line, backlog)
	r.set(lines, true)
	defer r.set(lines, false)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer leave()
	writing.Go(func() {
		for {
			select {
			case line := <-lines:
				if out.Send(line) != nil { // waits while the member takes nothing
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for line, err := range in.All() {
		if err != nil {
			return err
		}
		if line.Value == "" {
			return rpc.Statusf(rpc.CodeInvalidArgument, "an empty line")
		}
		r.say(line)
	}
	return nil
}

func (r *room) set(lines chan *Line, member bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if member {
		r.members[lines] = true
	} else {
		delete(r.members, lines)
	}
}

func (r *room) say(line *Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for lines := range r.members {
		select {
		case lines <- line:
		default: // a slow member
		}
	}
}

// server serves the room.
func server() (*rpc.Server, error) {
	r := &room{members: make(map[chan *Line]bool)}
	svc, err := rpc.NewService(chat, rpc.BidiStream("Join", r.join))
	if err != nil {
		return nil, err
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "grpc", Addr: "127.0.0.1:0"}}})
	if err != nil {
		return nil, err
	}
	return srv, errors.Join(srv.Register(svc), srv.Listen())
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
