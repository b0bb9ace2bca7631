package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// echo compares the C loop, package net and the engine.
func echo(ctx context.Context, b *binaries, s settings) (*report, error) {
	return compare(ctx, b, s, []contender{
		{Name: "C epoll loop", binary: "c"},
		{Name: "net, goroutine per connection", binary: "net"},
		{Name: "eddy, one loop", binary: "eddy"},
	})
}

// hop compares the engine with itself: handler on the loop, handler on a pool, in both wait modes.
func hop(ctx context.Context, b *binaries, s settings) (*report, error) {
	const workers = "8"
	return compare(ctx, b, s, []contender{
		{Name: "eddy direct, parked", binary: "eddy"},
		{Name: "eddy hop, parked", binary: "eddy", args: []string{"-workers", workers}},
		{Name: "eddy direct, pinned", binary: "eddy", args: []string{"-pinned"}},
		{Name: "eddy hop, pinned", binary: "eddy", args: []string{"-pinned", "-workers", workers}},
	})
}

// compare runs every contender once per round, in turn, for each pipeline depth. All servers stay up for the whole comparison.
func compare(ctx context.Context, b *binaries, s settings, contenders []contender) (rep *report, err error) {
	servers, stop, err := startAll(b, s, contenders)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	rep = &report{Conns: s.conns, Size: s.size, Procs: s.procs, Rounds: s.rounds, Duration: s.duration.String()}
	for _, pipeline := range s.pipelines {
		t := newTable(pipeline, contenders)
		for round := range s.rounds {
			for i, srv := range servers {
				progress("pipeline %d, round %d of %d: %s", pipeline, round+1, s.rounds, srv.Name)
				if err := t.Rows[i].measure(ctx, srv, s, pipeline); err != nil {
					return nil, fmt.Errorf("%s: %w", srv.Name, err)
				}
			}
		}
		t.finish()
		rep.Tables = append(rep.Tables, t)
	}
	return rep, nil
}

// startAll starts the contenders on the server's processors; stop ends those that were started and must be called in any case.
func startAll(b *binaries, s settings, contenders []contender) (servers []*server, stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, srv := range servers {
			errs = append(errs, srv.stop())
		}
		return errors.Join(errs...)
	}
	for _, c := range contenders {
		c.cpus, c.procs = s.serverCPU, s.procs
		srv, err := start(b, c)
		if err != nil {
			return servers, stop, err
		}
		servers = append(servers, srv)
	}
	return servers, stop, nil
}

// measure runs one round against srv and adds it to the row.
func (r *row) measure(ctx context.Context, srv *server, s settings, pipeline int) error {
	l := &load{
		addr: srv.addr, conns: s.conns, size: s.size, pipeline: pipeline,
		warmup: s.warmup, duration: s.duration, cpus: s.clientCPU,
	}
	var marks []time.Duration
	res, err := l.round(ctx, func() error {
		used, err := srv.cpuTime()
		marks = append(marks, used)
		return err
	})
	if err != nil {
		return err
	}
	if res.requests == 0 {
		return errors.New("no request was answered in the window")
	}
	_, peak, err := srv.memory()
	if err != nil {
		return err
	}
	r.add(res, marks[1]-marks[0], peak)
	return nil
}

// idle measures what an idle connection costs: resident memory, and wakeups of the whole server while nothing happens.
func idle(ctx context.Context, b *binaries, s settings) (*report, error) {
	const quiet = 3 * time.Second
	rep := &report{Conns: s.idleConns, Size: s.size, Procs: s.procs, Rounds: 1, Duration: quiet.String()}
	for _, c := range []contender{
		{Name: "C epoll loop", binary: "c"},
		{Name: "net, goroutine per connection", binary: "net"},
		{Name: "eddy, 3 handlers, idle deadline", binary: "eddy", args: []string{"-handlers", "3", "-idle", "10m"}},
	} {
		progress("%s idle connections: %s", strconv.Itoa(s.idleConns), c.Name)
		c.cpus, c.procs = s.serverCPU, s.procs
		row, err := idleRow(ctx, b, s, c, quiet)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		rep.Idle = append(rep.Idle, row)
	}
	return rep, nil
}

// idleRow opens the connections, lets each exchange one message so that its buffers have been used, and then leaves them alone.
func idleRow(ctx context.Context, b *binaries, s settings, c contender, quiet time.Duration) (row idleResult, err error) {
	srv, err := start(b, c)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	before, _, err := srv.memory()
	if err != nil {
		return row, err
	}
	crowd, err := gather(srv.addr, s.idleConns, s.size)
	defer crowd.close()
	if err != nil {
		return row, err
	}
	if err := wait(ctx, quiet); err != nil { // lets garbage collection and timers settle
		return row, err
	}
	woken, err := srv.wakeups()
	if err != nil {
		return row, err
	}
	if err := wait(ctx, quiet); err != nil {
		return row, err
	}
	after, err := srv.wakeups()
	if err != nil {
		return row, err
	}
	now, _, err := srv.memory()
	if err != nil {
		return row, err
	}
	return idleResult{
		Name: c.Name, BytesPerConn: float64(now-before) / float64(s.idleConns),
		WakeupsPerSecond: float64(after-woken) / quiet.Seconds(),
	}, nil
}

// wait passes d unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
