package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/spf13/cobra"
)

const defaultServeAddr = "127.0.0.1:7000"

func newServe(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a small example server: echo, line, lanes, frame, rpc, http or ws",
		RunE:  needsCommand("echo, line, lanes, frame, rpc, http and ws"),
	}
	cmd.AddCommand(newServeEcho(t), newServeLine(t), newServeLanes(t), newServeFrame(t), newServeRPC(t), newServeHTTP(t), newServeWS(t))
	return cmd
}

func newServeEcho(t *terminal) *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:     "echo",
		Short:   "Send every byte back",
		Example: "  eddy serve echo --addr 127.0.0.1:7000\n  eddy bench echo --addr 127.0.0.1:7000",
		RunE: func(*cobra.Command, []string) error {
			return t.serve(f, "echo", func(p *eddy.Pipeline) error { return p.Add("echo", echo{}) })
		},
	}
	f.register(cmd, defaultServeAddr)
	f.tls.register(cmd)
	f.registerIdle(cmd)
	return cmd
}

// serve runs one example server until it is told to stop.
func (t *terminal) serve(f listenFlags, name string, init func(*eddy.Pipeline) error, with ...*executor.Pool) error {
	if err := f.check(); err != nil {
		return err
	}
	op, err := t.operator(&f, "eddy serve "+name)
	if err != nil {
		return err
	}
	init, end, err := t.secured(&f, init)
	if err != nil {
		return err
	}
	defer end()
	srv := f.server(init)
	if err := srv.Listen("tcp", f.addr); err != nil {
		return explainListen(f.addr, err)
	}
	t.say("eddy: serving %s on %s; stop with Ctrl+C", name, srv.Addr())
	if err := errors.Join(op.watch(name, srv, with...), op.begin(&f)); err != nil {
		return errors.Join(err, srv.Close())
	}
	defer op.end()
	return t.untilSignal(func(ctx context.Context) (string, error) {
		op.drain()
		r, err := srv.Shutdown(ctx)
		return fmt.Sprintf("%d connections drained, %d forced, %d requests dropped", r.Drained, r.Forced, r.Dropped), err
	})
}

// echo sends back what it gets.
type echo struct{}

func (echo) HandleRead(ctx *eddy.Context, msg any) error {
	b, ok := msg.(*buf.Bytes)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	return ctx.WriteBytes(b.Bytes())
}

func newServeLine(t *terminal) *cobra.Command {
	var f listenFlags
	var maxLine int
	cmd := &cobra.Command{
		Use:     "line",
		Short:   `Answer every line with "<length>: <text>"; "bye" and "exit" close`,
		Example: "  eddy serve line --addr 127.0.0.1:7000\n  nc 127.0.0.1 7000",
		RunE: func(*cobra.Command, []string) error {
			if maxLine < 1 || maxLine > maxLineLimit {
				return fmt.Errorf("--max-line %d is out of range: use 1 to %d", maxLine, maxLineLimit)
			}
			return t.serve(f, "line", func(p *eddy.Pipeline) error {
				p.Add("line", line.Codec(maxLine))
				return p.Add("answer", answer{})
			})
		},
	}
	f.register(cmd, defaultServeAddr)
	f.tls.register(cmd)
	f.registerIdle(cmd)
	cmd.Flags().IntVar(&maxLine, "max-line", line.DefaultMax, "longest line in bytes")
	return cmd
}

// maxLineLimit bounds --max-line: a line is held in memory until it is complete.
const maxLineLimit = 1 << 20

// answer is the line protocol of "eddy serve line".
type answer struct{}

// HandleRead answers one line.
func (answer) HandleRead(ctx *eddy.Context, msg any) error {
	l, ok := msg.(*line.Line)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	text := l.Text()
	if s := string(text); s == "bye" || s == "exit" {
		ctx.CloseAfterFlush(eddy.CloseNormal)
		return nil
	}
	reply := make([]byte, 0, len(text)+16)
	reply = strconv.AppendInt(reply, int64(len(text)), 10)
	reply = append(reply, ": "...)
	reply = append(reply, text...)
	return ctx.Write(append(reply, '\n'))
}

// HandleError tells the peer what was wrong with its line; the connection then closes with the error's own reason.
func (answer) HandleError(ctx *eddy.Context, err error) error {
	if e, ok := errors.AsType[*line.TooLongError](err); ok {
		if werr := ctx.Write(fmt.Appendf(nil, "error: line too long: the limit is %d bytes\n", e.Max)); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}
