package eddy_test

import (
	"bufio"
	"fmt"
	"net"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// A protocol with an upgrade: the first message is the greeting; its handler is replaced by the one of the dialogue.
func ExamplePipeline_Replace() {
	dialogue := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		return ctx.Write(fmt.Appendf(nil, "you said %s\n", m.Bytes()))
	})
	greeting := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		if err := ctx.Pipeline().Replace("greeting", "dialogue", dialogue); err != nil {
			return err
		}
		return ctx.Write(fmt.Appendf(nil, "welcome, %s: %v\n", m.Bytes(), ctx.Pipeline().Names()))
	})
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("greeting", greeting)
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
	fmt.Fprint(c, "Ann\nhello\n")
	answers := bufio.NewScanner(c)
	for range 2 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	// Output:
	// welcome, Ann: [lines dialogue]
	// you said hello
}
