// Package serve is "eddy serve": small example servers.
package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc/config"
)

// Command builds the command and those below it. The engines are for the files of "eddy serve rpc".
func Command(t *cli.Terminal, engines config.Engines) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a small example server: echo, line, lanes, frame, rpc, http or ws",
		RunE:  cli.NeedsCommand("echo, line, lanes, frame, rpc, http and ws"),
	}
	cmd.AddCommand(newEcho(t), newLine(t), newLanes(t), newFrame(t), newRPC(t, engines), newHTTP(t), newWS(t))
	return cmd
}

func newEcho(t *cli.Terminal) *cobra.Command {
	var f serving.Flags
	cmd := &cobra.Command{
		Use:     "echo",
		Short:   "Send every byte back",
		Example: "  eddy serve echo --addr 127.0.0.1:7000\n  eddy bench echo --addr 127.0.0.1:7000",
		RunE: func(*cobra.Command, []string) error {
			return serve(t, f, "echo", func(p *eddy.Pipeline) error { return p.Add("echo", echo{}) })
		},
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterIdle(cmd)
	return cmd
}

// serve runs one example server until it is told to stop.
func serve(t *cli.Terminal, f serving.Flags, name string, init func(*eddy.Pipeline) error, with ...*executor.Pool) error {
	if err := f.Check(); err != nil {
		return err
	}
	op, err := f.Operator(t, "eddy serve "+name)
	if err != nil {
		return err
	}
	init, end, err := f.Secured(t, init)
	if err != nil {
		return err
	}
	defer end()
	srv := f.Server(init)
	if err := srv.Listen("tcp", f.Addr); err != nil {
		return cli.ExplainListen("--addr", f.Addr, err)
	}
	t.Say("eddy: serving %s on %s; stop with Ctrl+C", name, srv.Addr())
	calm, err := f.Protect(op, name, srv, with...)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	defer calm()
	if err := errors.Join(op.Watch(name, srv, with...), op.Begin(f.Measured...)); err != nil {
		return errors.Join(err, srv.Close())
	}
	defer op.End()
	return serving.UntilSignal(t, nil, func(ctx context.Context) (string, error) {
		op.Drain()
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

func newLine(t *cli.Terminal) *cobra.Command {
	var f serving.Flags
	var maxLine int
	cmd := &cobra.Command{
		Use:     "line",
		Short:   `Answer every line with "<length>: <text>"; "bye" and "exit" close`,
		Example: "  eddy serve line --addr 127.0.0.1:7000\n  nc 127.0.0.1 7000",
		RunE: func(*cobra.Command, []string) error {
			if maxLine < 1 || maxLine > maxLineLimit {
				return fmt.Errorf("--max-line %d is out of range: use 1 to %d", maxLine, maxLineLimit)
			}
			return serve(t, f, "line", func(p *eddy.Pipeline) error {
				p.Add("line", line.Codec(maxLine))
				return p.Add("answer", answer{})
			})
		},
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterIdle(cmd)
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

// adaptive returns the options of a pool that finds its limit by itself, nil without on.
func adaptive(on bool) *executor.Adaptive {
	if !on {
		return nil
	}
	return &executor.Adaptive{}
}
