package eddy_test

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
)

// A handler on the loop begins a trace for each message; the handler on the pool finds it in its context, and so does
// what it calls.
func ExampleContext_SetTrace() {
	type span struct{} // what a tracing library keeps its span under
	pool, err := executor.NewFixed(executor.Options{Name: "business"})
	if err != nil {
		fmt.Println(err)
		return
	}
	query := func(ctx context.Context) string { return fmt.Sprintf("queried in span %v", ctx.Value(span{})) }
	requests := 0
	srv := &eddy.Server{Loops: 1, Pools: []*executor.Pool{pool}, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		p.Add("trace", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			requests++
			ctx.SetTrace(context.WithValue(context.Background(), span{}, fmt.Sprintf("request-%d", requests)))
			ctx.FireRead(l)
			return nil
		}))
		return p.Add("business", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write([]byte(query(ctx.Context()) + "\n"))
		}), eddy.On(pool))
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
	r := bufio.NewReader(c)
	for range 2 {
		fmt.Fprintln(c, "hello")
		answer, _ := r.ReadString('\n')
		fmt.Print(answer)
	}
	// Output:
	// queried in span request-1
	// queried in span request-2
}

// Messages of one connection run side by side; when the pool is full, the client is told to come back.
func ExampleOnUnordered() {
	pool, err := executor.NewFixed(executor.Options{Name: "lookups", Workers: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	busy := eddy.RejectReply(func(msg any) any { return []byte("busy\n") })
	srv := &eddy.Server{Pools: []*executor.Pool{pool}, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("lookup", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write(fmt.Appendf(nil, "found %s\n", l.Text())) // may block, and delays no other message
		}), eddy.OnUnordered(pool), busy)
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
	fmt.Fprintln(c, "eddy")
	answer, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(answer)
	// Output: found eddy
}
