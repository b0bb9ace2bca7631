// Command leak shows what leak detection reports about a server that forgets counted buffers. The bug is in say. Try it
// with each level:
//
//	go run ./examples/leak paranoid
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
)

// say answers a line with a counted buffer, as code that writes one message to many connections would.
func say(ctx *eddy.Context, l *line.Line) error {
	msg := ctx.Conn().Buffers().Copy(append(bytes.ToUpper(l.Text()), '\n'))
	if bytes.HasPrefix(msg.Bytes(), []byte("#")) {
		return ctx.WriteBytes([]byte("ignored\n")) // the bug: msg is not released on this way out
	}
	return ctx.Write(msg)
}

// run sends that many lines to a server with the given leak detection. Every second line hits the bug.
func run(level buf.LeakLevel, lines int, logger *slog.Logger) (eddy.Stats, error) {
	group := &eddy.Group{Loops: 1, LeakDetection: level, Logger: logger}
	defer group.Close()
	srv := &eddy.Server{Group: group, Logger: logger, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("say", eddy.Handle(say))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return eddy.Stats{}, err
	}
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		return eddy.Stats{}, err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for i := range lines {
		if _, err := fmt.Fprintf(conn, "%s line %d\n", []string{"a", "#"}[i%2], i); err != nil {
			return eddy.Stats{}, err
		}
		if _, err := answers.ReadString('\n'); err != nil {
			return eddy.Stats{}, err
		}
	}
	for range 20 { // leaks are reported after a garbage collection
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	return srv.Stats(), nil
}

func main() {
	name := "advanced"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	level, err := buf.ParseLeakLevel(name)
	if err != nil {
		log.Fatal(err)
	}
	st, err := run(level, 4000, slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("level %v: %d buffers were not released, leak detection met %d of them\n", level, st.LiveBuffers, st.Leaks)
}
