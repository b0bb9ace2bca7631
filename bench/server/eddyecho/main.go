// Command eddyecho is the engine under measurement: an echo server whose pipeline, wait mode and hop are chosen by flags.
// It prints "listening ADDR" and serves until its standard input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// echo answers what it reads; as the first handler of a pipeline it gets the bytes undecoded.
type echo struct{}

func (echo) HandleRead(ctx *eddy.Context, msg any) error {
	if m, ok := msg.(*buf.Bytes); ok {
		return ctx.WriteBytes(m.Bytes())
	}
	return ctx.Write(msg)
}

// pass stands for a handler that looks at every message and forwards it.
type pass struct{}

func (pass) HandleRead(ctx *eddy.Context, msg any) error {
	ctx.FireRead(msg)
	return nil
}

func main() {
	loops := flag.Int("loops", 1, "worker loops")
	pinned := flag.Bool("pinned", false, "wait mode pinned instead of parked")
	workers := flag.Int("workers", 0, "answer on a pool of this many workers; 0 answers on the loop")
	handlers := flag.Int("handlers", 1, "handlers in the pipeline, the last one answers")
	idle := flag.Duration("idle", 0, "idle deadline; 0 = none")
	flag.Parse()
	if err := run(*loops, *pinned, *workers, *handlers, *idle); err != nil {
		log.Fatalf("eddyecho: %v", err)
	}
}

func run(loops int, pinned bool, workers, handlers int, idle time.Duration) error {
	var opts []eddy.AddOption
	if workers > 0 {
		pool, err := executor.NewFixed(executor.Options{Name: "echo", Workers: workers, Queue: 1 << 16})
		if err != nil {
			return err
		}
		defer pool.Close()
		opts = append(opts, eddy.On(pool))
	}
	srv := &eddy.Server{
		Loops:       loops,
		IdleTimeout: idle,
		Logger:      slog.New(slog.DiscardHandler), // the load generator leaves with resets
		Init: func(p *eddy.Pipeline) error {
			for i := 1; i < handlers; i++ {
				if err := p.Add(fmt.Sprintf("pass%d", i), pass{}); err != nil {
					return err
				}
			}
			return p.Add("echo", echo{}, opts...)
		},
	}
	if pinned {
		srv.WaitMode = eddy.WaitPinned
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	fmt.Println("listening", srv.Addr())
	io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := srv.Shutdown(ctx)
	return err
}
