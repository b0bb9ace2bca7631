package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// visitEvery is how often each visitor of floods asks, on a connection of its own.
const visitEvery = 10 * time.Millisecond

// flooded are the servers of floods.
var flooded = []contender{
	{Name: "net/http", binary: "nethttp", args: []string{"-http2"}},
	{Name: "eddy, net/http handler on a pool", binary: "eddyhttp", args: []string{"-http2", "-workers", "16"}},
	{Name: "eddy, function on the loop", binary: "eddyhttp", args: []string{"-http2"}},
}

// floods measures what clients of HTTP/2 notice of others that flood the same loop: the latency of requests that are due at fixed times,
// and the server's processor time and memory. It fails when a request of theirs does.
func floods(ctx context.Context, b *binaries, s settings) (*report, error) {
	client := contender{Name: "clients", binary: "floods"}
	if err := b.build(ctx, append(slices.Clone(flooded), client)); err != nil {
		return nil, err
	}
	kinds, err := s.floodKinds(ctx, b.path(client))
	if err != nil {
		return nil, err
	}
	visitors, attackers := s.cases[0].conns, s.cases[0].pipeline
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf(
		"%d connections with a request each %v, open loop, alone and beside %d that flood; who is ended comes back at once. %d rounds of %s each, in turn; medians, and the highest peak of memory. The ratio compares p99 with that of the same round before the flood.",
		visitors, visitEvery, attackers, s.rounds, s.duration)}
	for _, c := range flooded {
		rep.Grids = append(rep.Grids, &grid{Title: c.Name + ":", First: "flood", Columns: floodColumns})
	}
	for _, kind := range kinds {
		rows := make([][][]float64, len(flooded))
		for round := range s.rounds {
			for turn := range flooded {
				i := (round + turn) % len(flooded)
				progress("%s, round %d of %d: %s", kind, round+1, s.rounds, flooded[i].Name)
				row, err := b.besideFlood(ctx, s, flooded[i].on(s, s.procs[0]), b.path(client), kind)
				if err != nil {
					return nil, fmt.Errorf("%s beside %s: %w", flooded[i].Name, kind, err)
				}
				rows[i] = append(rows[i], row)
			}
		}
		for i, g := range rep.Grids {
			row := medians(rows[i])
			for _, r := range rows[i] {
				row[peakColumn] = max(row[peakColumn], r[peakColumn])
			}
			g.add(kind, row...)
		}
	}
	return rep, nil
}

// noFlood is the row without one.
const noFlood = "none"

// floodKinds returns the floods that were asked for, or that and all that the flooder knows.
func (s settings) floodKinds(ctx context.Context, flooder string) ([]string, error) {
	if s.floods != "" {
		return strings.Split(s.floods, ","), nil
	}
	kinds, err := exec.CommandContext(ctx, flooder, "-list").Output()
	return append([]string{noFlood}, strings.Fields(string(kinds))...), err
}

// The columns that a test looks at.
const (
	ratioColumn = 3
	peakColumn  = 7
)

var floodColumns = []column{
	{"p50 µs", "%.0f"}, {"p99 µs", "%.0f"}, {"before it", "%.0f"}, {"ratio", "%.2f"}, {"CPU % of the server", "%.0f"}, {"pieces sent / s", "%.0f"}, {"connections / s", "%.0f"}, {"peak RSS MiB", "%.1f"},
}

// besideFlood starts a server, has it visited without a flood and then beside one, and returns a row of the table.
func (b *binaries) besideFlood(ctx context.Context, s settings, c contender, client, kind string) (row []float64, err error) {
	srv, err := start(b, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	_, before, err := s.visits(ctx, client, srv.addr)
	if err != nil {
		return nil, err
	}
	stop := func() (sent, conns float64, err error) { return 0, 0, nil }
	if kind != noFlood {
		if stop, err = flood(s, client, srv.addr, kind); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := wait(ctx, s.warmup); err != nil {
		return nil, err
	}
	from, err := srv.cpuTime()
	if err != nil {
		return nil, err
	}
	p50, p99, err := s.visits(ctx, client, srv.addr)
	to, cpuErr := srv.cpuTime()
	elapsed := time.Since(began)
	sent, conns, stopErr := stop()
	_, peak, memErr := srv.memory()
	if err := errors.Join(err, cpuErr, stopErr, memErr); err != nil {
		return nil, err
	}
	return []float64{
		p50, p99, before, p99 / before, 100 * (to - from).Seconds() / s.duration.Seconds(),
		sent / elapsed.Seconds(), conns / elapsed.Seconds(), float64(peak) / (1 << 20),
	}, nil
}

// flood starts a process that floods addr. It shares the processor of the visitors, who go first. stop ends it.
func flood(s settings, client, addr, kind string) (stop func() (sent, conns float64, err error), err error) {
	cmd := exec.Command("chrt", "--idle", "0", client, "-addr", addr, "-flood", kind, "-conns", strconv.Itoa(s.cases[0].pipeline))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(cmd, s.clientCPU); err != nil {
		return nil, err
	}
	begun := ""
	timer := time.AfterFunc(startTimeout, func() { cmd.Process.Kill() })
	_, err = fmt.Fscan(out, &begun)
	stop = func() (sent, conns float64, err error) {
		in.Close()
		timer.Reset(stopTimeout)
		defer timer.Stop()
		_, err = fmt.Fscan(out, &sent, &conns)
		return sent, conns, errors.Join(err, cmd.Wait())
	}
	if timer.Stop(); err != nil {
		_, _, stopErr := stop()
		return nil, fmt.Errorf("flooder: %w", errors.Join(err, stopErr))
	}
	return stop, nil
}

// visits has a process visit addr, and returns what it measured, in microseconds.
func (s settings) visits(ctx context.Context, client, addr string) (p50, p99 float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.duration+20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, client, "-addr", addr, "-conns", strconv.Itoa(s.cases[0].conns), "-every", visitEvery.String(), "-for", s.duration.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := startOn(cmd, s.clientCPU); err != nil {
		return 0, 0, err
	}
	if err := cmd.Wait(); err != nil {
		return 0, 0, fmt.Errorf("visitors: %w", err)
	}
	_, err = fmt.Fscan(&out, &p50, &p99)
	return p50, p99, err
}
