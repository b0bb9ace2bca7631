// Command lanes is a line server whose requests are light or heavy, as their first word says. Heavy ones take their
// time. With lanes, each kind has workers of its own. Without, all requests wait in the one queue of a pool.
package main

import (
	"bytes"
	"context"
	"flag"
	"log"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
)

type options struct {
	shared  bool
	workers int
	heavy   time.Duration
}

func main() {
	var o options
	flag.BoolVar(&o.shared, "shared", false, "one queue for all instead of lanes")
	flag.IntVar(&o.workers, "workers", 2, "workers for heavy requests; with -shared, for all")
	flag.DurationVar(&o.heavy, "heavy", 10*time.Millisecond, "time that a heavy request takes")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatalf("lanes: %v", err)
	}
}

// job is a request on its way to a worker, and its answer on the way back.
type job struct {
	conn *eddy.Conn
	text string
}

// way takes a request, on the loop, and has it answered.
type way interface {
	submit(heavy bool, j job) error
	end(ctx context.Context)
}

func run(o options) error {
	group := &eddy.Group{Loops: 1}
	if err := group.Start(); err != nil {
		return err
	}
	defer group.Close()
	w, err := newWay(o, group.Loop(0))
	if err != nil {
		return err
	}
	srv := &eddy.Server{
		Group: group, Topology: eddy.SingleReactor,
		Logger: slog.New(slog.DiscardHandler), // the load generator leaves with resets
		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", line.Codec(256))
			return p.Add("submit", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				j := job{conn: ctx.Conn(), text: string(l.Text()) + "\n"}
				if w.submit(bytes.HasPrefix(l.Text(), []byte("heavy")), j) != nil {
					return ctx.WriteBytes([]byte("busy " + j.text))
				}
				return nil
			}))
		},
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	target.Serve(srv.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = srv.Close()
	w.end(ctx)
	return err
}

func newWay(o options, loop *eddy.Loop) (way, error) {
	if o.shared {
		pool, err := executor.NewFixed(executor.Options{Name: "all", Workers: o.workers, Queue: 1024, Logger: slog.New(slog.DiscardHandler)})
		return &oneQueue{pool: pool, heavy: o.heavy}, err
	}
	w := &lanes{}
	var err error
	w.lanes, err = executor.NewLanes(executor.LanesOptions[job, job]{
		Lanes: []executor.Lane{{Name: "light"}, {Name: "heavy", Workers: o.workers}},
		Run: func(lane int, in, out *job) {
			if lane == 1 {
				time.Sleep(o.heavy)
			}
			*out = *in
		},
		Wake: func() error { return loop.Post(w.collect) },
	})
	if err != nil {
		return nil, err
	}
	return w, w.lanes.Start()
}

// oneQueue is a pool.
type oneQueue struct {
	pool  *executor.Pool
	heavy time.Duration
}

func (q *oneQueue) submit(heavy bool, j job) error {
	return q.pool.SubmitFunc(func() {
		if heavy {
			time.Sleep(q.heavy)
		}
		answer(&j)
	})
}

func (q *oneQueue) end(context.Context) { q.pool.Close() }

// lanes is a way for each kind of request.
type lanes struct{ lanes *executor.Lanes[job, job] }

func (w *lanes) submit(heavy bool, j job) error {
	lane := 0
	if heavy {
		lane = 1
	}
	return w.lanes.Submit(lane, j)
}

func (w *lanes) collect() { w.lanes.Collect(0, answer) }

func (w *lanes) end(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel() // waiting work is of no use any more
	w.lanes.Stop(ctx)
}

func answer(j *job) {
	if err := j.conn.Write([]byte(j.text)); err != nil {
		j.conn.Close(eddy.CloseNormal) // the connection has gone
	}
	*j = job{}
}
