package main

import (
	"context"
	"errors"
	"fmt"
)

// crowded is a contender with or without idle connections beside those that are measured.
type crowded struct {
	contender
	idle bool
}

// crowdOf compares the same servers with a crowd of idle connections and without. It shows what 10,000 connections cost
// the hundred of them that speak.
func crowdOf(ctx context.Context, b *binaries, s settings) (rep *report, err error) {
	eddy := contender{Name: oneLoop, binary: "eddy"}
	var contenders []contender
	for _, c := range []crowded{{eddy, false}, {eddy, true}, {cLoop, false}, {cLoop, true}, {netEcho, false}, {netEcho, true}} {
		if c.idle {
			c.Name += fmt.Sprintf(", %d idle beside them", s.idleConns)
		}
		contenders = append(contenders, c.contender)
	}
	servers, stop, err := startAll(ctx, b, s, s.procs[0], contenders)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	c := s.cases[0]
	rep = &report{Unit: "requests", Size: s.size, Rounds: s.rounds, Duration: s.duration.String(),
		Note: fmt.Sprintf("\n%d connections and %d that speak are on one loop, or one goroutine each of package net.", s.idleConns, c.conns)}
	// One crowd at a time, because this process has descriptors for only one.
	for i := 0; i < len(servers); i += 2 {
		t := newTable(c, s.procs[0], contenders[i:i+2])
		if err := crowdPair(ctx, s, c, servers[i:i+2], t.Rows); err != nil {
			return nil, err
		}
		t.finish()
		rep.Tables = append(rep.Tables, t)
	}
	return rep, nil
}

// crowdPair measures a server alone and its double with the crowd, in turn.
func crowdPair(ctx context.Context, s settings, c testCase, servers []*server, rows []*row) error {
	progress("%d idle connections: %s", s.idleConns, servers[1].Name)
	idle, err := gather(servers[1].addr, s.idleConns, s.size)
	defer idle.close()
	if err != nil {
		return err
	}
	for round := range s.rounds {
		for i, srv := range servers {
			progress("%s, round %d of %d: %s", c, round+1, s.rounds, srv.Name)
			if err := rows[i].measure(ctx, srv, echoLoad(srv, s, c)); err != nil {
				return fmt.Errorf("%s: %w", srv.Name, err)
			}
		}
	}
	return nil
}
