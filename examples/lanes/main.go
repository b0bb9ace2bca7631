// Command lanes keeps heavy work from delaying light work. One loop submits to two lanes with workers of their own, and collects all results through
// one multiplexer. A line that begins with "heavy" goes to the second lane. Try it with: printf 'heavy\nlight\n' | nc 127.0.0.1 7000
package main

import (
	"bytes"
	"errors"
	"log"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
)

// A job is a line on its way to a worker, and its answer on the way back.
type job struct {
	conn *eddy.Conn
	text []byte
}

const light, heavy = 0, 1

// server makes the lanes, a group of one loop that submits and collects, and the server on it. The caller stops them in the reverse order.
func server(toil func(lane int)) (*eddy.Server, *eddy.Group, *executor.Lanes[job, job], error) {
	group := &eddy.Group{Loops: 1}
	if err := group.Start(); err != nil {
		return nil, nil, nil, err
	}
	var lanes *executor.Lanes[job, job]
	answer := func(j *job) {
		_ = j.conn.Write(j.text) // an error means that the connection has ended
		j.conn.End()
	}
	lanes, err := executor.NewLanes(executor.LanesOptions[job, job]{
		Lanes: []executor.Lane{{Name: "light", Heaviness: light, Capacity: 1024}, {Name: "heavy", Heaviness: heavy, Workers: 2, Capacity: 64}},
		Run: func(lane int, in, out *job) { // on a worker of the lane: here it may block
			toil(lane)
			out.conn, out.text = in.conn, append(bytes.ToUpper(in.text), '\n')
		},
		Wake: func() error { return group.Loop(0).Post(func() { lanes.Collect(0, answer) }) },
	})
	if err != nil {
		return nil, nil, nil, errors.Join(err, group.Close())
	}
	submit := eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		lane := light
		if bytes.HasPrefix(l.Text(), []byte("heavy")) {
			lane = heavy
		}
		if lanes.Submit(lane, job{ctx.Conn(), bytes.Clone(l.Text())}) != nil {
			return ctx.Write("busy\n") // that lane is full; the other one is not
		}
		ctx.Conn().Begin() // until answer calls End; a draining server waits for it
		return nil
	})
	srv := &eddy.Server{Group: group, Topology: eddy.SingleReactor, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		return p.Add("submit", submit)
	}}
	return srv, group, lanes, lanes.Start()
}

func main() {
	srv, _, _, err := server(func(lane int) { time.Sleep(time.Duration(lane) * time.Second) })
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:7000")
	}
	log.Fatal(err)
}
