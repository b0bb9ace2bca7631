package eddy_test

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// A server that answers and ends the connection when the answer has gone out.
func ExampleFuture_OnDone() {
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		return p.Add("goodbye", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			ctx.WriteFuture([]byte("goodbye")).OnDone(func(f *eddy.Future) { f.Conn().CloseAfterFlush(eddy.CloseNormal) })
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "hello")
	answer, err := io.ReadAll(c)
	fmt.Printf("%s %v\n", answer, err)
	// Output: goodbye <nil>
}

// A client that connects, writes twice and waits for both writes.
func ExampleAllOf() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	dialer := &eddy.Dialer{Init: func(p *eddy.Pipeline) error {
		return p.Add("answers", eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil }))
	}}
	defer dialer.Close()
	ctx := context.Background()
	dial, err := dialer.DialFuture(ln.Addr(), eddy.DialOptions{})
	if err != nil {
		panic(err)
	}
	if err := dial.Wait(ctx); err != nil {
		panic(err)
	}
	conn := dial.Conn()
	both := eddy.AllOf(conn.WriteFuture([]byte("one")), conn.WriteFuture([]byte("two")))
	fmt.Println(both.Wait(ctx), both.Completed())
	conn.Close(eddy.CloseNormal)
	fmt.Println(conn.WriteFuture([]byte("three")).Err())
	// Output:
	// <nil> true
	// eddy: connection closed: normal
}
