package responder_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/responder"
)

// A line protocol whose requests may block, and whose clients expect the responses in order.
func ExampleResponder() {
	pool, err := executor.NewFixed(executor.Options{Name: "work", Workers: 4, Queue: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers, err := responder.New(responder.Options[*line.Line]{
		Pool:     pool,
		Ordering: responder.ByRequest,
		Run: func(ctx context.Context, req *line.Line) (any, error) {
			return strings.ToUpper(string(req.Text())), ctx.Err() // may block
		},
		Answer: func(_ *line.Line, resp any, err error) any {
			if errors.Is(err, executor.ErrRejected) {
				return "busy\n"
			}
			if err != nil {
				return "failed\n"
			}
			return resp.(string) + "\n"
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := &eddy.Server{Pools: []*executor.Pool{pool}, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(0))
		return p.Add("answers", answers)
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	io.WriteString(c, "one\ntwo\n")
	r := bufio.NewReader(c)
	for range 2 {
		line, _ := r.ReadString('\n')
		fmt.Print(line)
	}
	// Output:
	// ONE
	// TWO
}
