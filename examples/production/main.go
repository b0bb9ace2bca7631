// Command production is shout with every bound set that docs/production.md asks for. The numbers are for a machine with 4 GB; choose your own.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/overload"
)

func server() (*eddy.Server, error) {
	work, err := executor.NewFixed(executor.Options{Name: "work", Workers: 64, Queue: 1024, Dumper: &executor.Dumper{}})
	if err != nil {
		return nil, err
	}
	lines := line.Codec(1024) // the longest line; longer ones are refused before they are complete
	shout := eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		return ctx.Write(append(bytes.ToUpper(l.Text()), '\n'))
	})
	busy := eddy.RejectReply(func(any) any { return "busy, try again\n" })
	return &eddy.Server{
		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", lines)
			return p.Add("shout", shout, eddy.On(work), busy)
		},
		Pools: []*executor.Pool{work},

		// Who may come in.
		Backlog:  4096,
		MaxConns: 50_000,
		Admission: eddy.Admission{
			MaxPerIP: 200,
			Rate:     5000,
			OnLimit:  eddy.DecisionBusy,
			Busy:     func(r eddy.Refusal) []byte { return fmt.Appendf(nil, "busy, try again in %v\n", r.RetryAfter) },
		},

		// How much may lie about.
		TaskQueue:    65_536,
		Watermarks:   eddy.Watermarks{Low: 16 << 10, High: 64 << 10, Max: 1 << 20},
		Overflow:     eddy.OverflowClose,
		MemoryBudget: 1 << 30,

		// How long anything may take.
		KeepAlive:           time.Minute,
		IdleTimeout:         5 * time.Minute,
		ReadTimeout:         10 * time.Second,
		HandlerTimeout:      10 * time.Second,
		WriteTimeout:        10 * time.Second,
		BackpressureTimeout: 30 * time.Second,
	}, nil
}

// serve runs the server until told ends. Then it lets requests in flight finish, for at most grace.
func serve(told context.Context, srv *eddy.Server, addr string, grace time.Duration) error {
	if err := srv.Listen("tcp", addr); err != nil {
		return err
	}
	if _, err := overload.New(overload.Options{Servers: []*eddy.Server{srv}}); err != nil { // ends with the server
		return errors.Join(err, srv.Close())
	}
	slog.Info("listening", "addr", srv.Addr())
	<-told.Done()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	report, err := srv.Shutdown(ctx)
	slog.Info("stopped", "drained", report.Drained, "forced", report.Forced, "dropped", report.Dropped)
	return err
}

func main() {
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	srv, err := server()
	if err == nil {
		err = serve(told, srv, "127.0.0.1:7000", 30*time.Second)
	}
	if err != nil && !errors.Is(err, eddy.ErrServerClosed) {
		slog.Error("production", "err", err)
		os.Exit(1)
	}
}
