// Command eddyecho is the engine under measurement: an echo server whose pipeline, topology, wait mode and hop are chosen
// by flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

// echo answers what it reads. As the first handler of a pipeline it gets the bytes undecoded.
type echo struct{ pause bool }

func (h echo) HandleRead(ctx *eddy.Context, msg any) error {
	if h.pause {
		ctx.Conn().PauseRead()
	}
	if m, ok := msg.(*buf.Bytes); ok {
		return ctx.WriteBytes(m.Bytes())
	}
	return ctx.Write(msg)
}

// counting is an echo with state of its own, so that each connection has an object.
type counting struct {
	echo
	messages int
}

func (h *counting) HandleRead(ctx *eddy.Context, msg any) error {
	h.messages++
	return h.echo.HandleRead(ctx, msg)
}

// pass stands for a handler that looks at every message and forwards it.
type pass struct{}

func (pass) HandleRead(ctx *eddy.Context, msg any) error {
	ctx.FireRead(msg)
	return nil
}

type options struct {
	loops, workers, handlers int
	pinned, pause, tls       bool
	objects                  bool
	idle                     time.Duration
	topology                 string
}

func main() {
	var o options
	flag.IntVar(&o.loops, "loops", 1, "worker loops")
	flag.BoolVar(&o.pinned, "pinned", false, "wait mode pinned instead of parked")
	flag.IntVar(&o.workers, "workers", 0, "answer on a pool of this many workers; 0 answers on the loop")
	flag.IntVar(&o.handlers, "handlers", 1, "handlers in the pipeline, the last one answers")
	flag.DurationVar(&o.idle, "idle", 0, "idle deadline; 0 = none")
	flag.BoolVar(&o.pause, "pause", false, "answer the first message of a connection and then pause it")
	flag.BoolVar(&o.objects, "objects", false, "a handler object for each connection")
	flag.StringVar(&o.topology, "topology", "boss", "boss, single or listeners")
	flag.BoolVar(&o.tls, "tls", false, "speak TLS, with a certificate made at the start")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatalf("eddyecho: %v", err)
	}
}

func run(o options) error {
	topologies := map[string]eddy.Topology{"boss": eddy.BossWorkers, "single": eddy.SingleReactor, "listeners": eddy.ListenerPerLoop}
	topology, ok := topologies[o.topology]
	if !ok {
		return fmt.Errorf("no topology %q", o.topology)
	}
	var opts []eddy.AddOption
	if o.workers > 0 {
		pool, err := executor.NewFixed(executor.Options{Name: "echo", Workers: o.workers, Queue: 1 << 16})
		if err != nil {
			return err
		}
		defer pool.Close()
		opts = append(opts, eddy.On(pool))
	}
	var layer *tlsx.Layer
	if o.tls {
		var pool *executor.Pool
		var err error
		if layer, pool, err = target.TLS(); err != nil {
			return err
		}
		defer pool.Close()
	}
	srv := &eddy.Server{
		Loops:       o.loops,
		Topology:    topology,
		IdleTimeout: o.idle,
		Logger:      slog.New(slog.DiscardHandler), // the load generator leaves with resets
		Init: func(p *eddy.Pipeline) error {
			if layer != nil {
				if err := p.Add("tls", layer); err != nil {
					return err
				}
			}
			for i := 1; i < o.handlers; i++ {
				if err := p.Add(fmt.Sprintf("pass%d", i), pass{}); err != nil {
					return err
				}
			}
			if o.objects {
				return p.Add("echo", &counting{echo: echo{pause: o.pause}}, opts...)
			}
			return p.Add("echo", echo{pause: o.pause}, opts...)
		},
	}
	if o.pinned {
		srv.WaitMode = eddy.WaitPinned
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	target.Serve(srv.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := srv.Shutdown(ctx)
	return err
}
