package line_test

import (
	"bufio"
	"fmt"
	"io"
	"net"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
)

func ExampleCodec() {
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(80))
		return p.Add("count", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write(fmt.Sprintf("%d\n", len(l.Text())))
		}))
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
	io.WriteString(c, "hello\r\n\nworlds\n")
	answers := bufio.NewScanner(c)
	for range 3 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	// Output:
	// 5
	// 0
	// 6
}
