// Command pipeline has three handlers on three executors: lines are decoded on the loop, logins checked on one pool, questions answered on another.
// When the second pool is full the answer is "busy", and no loop waits. Try it with: nc 127.0.0.1 7000, then "login ann" and any line.
package main

import (
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
)

// question is the message that auth passes on. It no longer borrows memory of the loop.
type question struct{ user, text string }

// auth passes on the lines of users that have logged in. It may block, because it runs on a pool, where each connection has one turn at a time.
func auth(ctx *eddy.Context, l *line.Line) error {
	user, known := ctx.State().(string)
	if name, ok := strings.CutPrefix(string(l.Text()), "login "); ok {
		ctx.SetState(name)
		return ctx.Write(fmt.Sprintf("welcome, %s\n", name))
	}
	if !known {
		return ctx.Write("who are you?\n")
	}
	ctx.FireRead(question{user, string(l.Text())})
	return nil
}

// business answers a question, on its own pool.
func business(ctx *eddy.Context, q question) error {
	letters := []rune(q.text)
	slices.Reverse(letters)
	return ctx.Write(fmt.Sprintf("%s: %s\n", q.user, string(letters)))
}

func server() (*eddy.Server, error) {
	logins, err := executor.NewFixed(executor.Options{Name: "logins", Workers: 2, Queue: 100})
	if err != nil {
		return nil, err
	}
	work, err := executor.NewFixed(executor.Options{Name: "work", Workers: 8, Queue: 1000})
	if err != nil {
		return nil, err
	}
	lines, check, answer := line.Codec(1024), eddy.Handle(auth), eddy.Handle(business) // shared by all connections
	busy := eddy.RejectReply(func(any) any { return "busy\n" })
	return &eddy.Server{
		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", lines)
			p.Add("auth", check, eddy.On(logins))
			return p.Add("business", answer, eddy.On(work), busy) // the first error of the three
		},
		Pools: []*executor.Pool{logins, work},
	}, nil
}

func main() {
	srv, err := server()
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:7000")
	}
	log.Fatal(err)
}
