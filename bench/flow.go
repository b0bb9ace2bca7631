package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// flows are the pairs that are compared over each network.
var flows = []struct{ title, base, eddy string }{
	{"RPC, all callers on one connection: net/rpc with gob, and eddy with raw bodies", "net/rpc", "eddy/rpc"},
	{"HTTP/1.1, a connection for each caller: net/http, and its handler on eddy", "net/http", "eddy/http1"},
}

// largeMessages compares servers whose answers or requests are large, over networks of several paces. Each figure comes
// from a server process of its own, so that the peak of memory is that of the case.
func largeMessages(ctx context.Context, b *binaries, s settings) (*report, error) {
	if err := b.build(ctx, []contender{{binary: "flow"}}); err != nil {
		return nil, err
	}
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf(
		"%d rounds of %s; medians, and the highest peak. Processor time is the server's. Every call succeeded; one that fails ends the comparison.", s.rounds, s.duration)}
	for _, f := range flows {
		g := &grid{Title: f.title + ":", First: "callers, message, network", Columns: []column{
			{f.base + ", calls / s", "%.0f"}, {"eddy", "%.0f"}, {"ratio", "%.2f"},
			{f.base + ", CPU µs per call", "%.0f"}, {"eddy", "%.0f"}, {"ratio", "%.2f"},
			{f.base + ", peak RSS MiB", "%.0f"}, {"eddy", "%.0f"},
		}}
		rep.Grids = append(rep.Grids, g)
		for _, c := range s.cases {
			for _, what := range []string{"answers", "requests"} {
				for _, pace := range paces(c, what) {
					name := fmt.Sprintf("%d, %s of %s, %s", c.conns, what, bytesName(c.size), pace)
					progress("%s and %s: %s", f.base, f.eddy, name)
					base, eddy, err := flowRow(ctx, b, s.of(c), c, what, pace, f.base, f.eddy)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", name, err)
					}
					g.add(name, base.calls, eddy.calls, eddy.calls/base.calls, base.cpu, eddy.cpu, eddy.cpu/base.cpu, base.peak, eddy.peak)
				}
			}
		}
	}
	return rep, nil
}

// paces returns the networks that a case is measured over. Slow ones show the same in each case, so one case is enough
// for them.
func paces(c testCase, what string) []string {
	if c.size == 64<<10 && c.conns == 16 && what == "answers" {
		return []string{"fast", "slow", "stop-and-go"}
	}
	return []string{"fast"}
}

func bytesName(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// flowFigures are the figures of one server in one case.
type flowFigures struct{ calls, cpu, peak float64 }

// flowRow measures two servers in turn.
func flowRow(ctx context.Context, b *binaries, s settings, c testCase, what, pace string, protos ...string) (base, eddy flowFigures, err error) {
	calls, cpu := make([][]float64, len(protos)), make([][]float64, len(protos))
	figures := make([]flowFigures, len(protos))
	for range s.rounds {
		for i, proto := range protos {
			args := []string{"-proto", proto, "-size", strconv.Itoa(s.size), "-upload=" + strconv.FormatBool(what == "requests"), "-pace", pace}
			one, err := flowOnce(ctx, b, s, contender{Name: proto, binary: "flow", args: args}.on(s, s.procs[0]), c.conns)
			if err != nil {
				return base, eddy, fmt.Errorf("%s: %w", proto, err)
			}
			calls[i], cpu[i] = append(calls[i], one.calls), append(cpu[i], one.cpu)
			figures[i].peak = max(figures[i].peak, one.peak)
		}
	}
	for i := range figures {
		figures[i].calls, figures[i].cpu = median(calls[i]), median(cpu[i])
	}
	return figures[0], figures[1], nil
}

// flowOnce starts a server and measures it once.
func flowOnce(ctx context.Context, b *binaries, s settings, c contender, conns int) (f flowFigures, err error) {
	srv, err := start(b, c)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	var marks []time.Duration
	load := &callers{path: b.path(c), srv: srv, callers: conns, s: s}
	res, err := load.round(ctx, func() error {
		used, err := srv.cpuTime()
		marks = append(marks, used)
		return err
	})
	if err != nil {
		return f, err
	}
	if res.requests == 0 {
		return f, errors.New("no request was answered in the window")
	}
	_, peak, err := srv.memory()
	return flowFigures{
		calls: float64(res.requests) / res.elapsed.Seconds(),
		cpu:   float64((marks[1] - marks[0]).Microseconds()) / float64(res.requests),
		peak:  float64(peak) / (1 << 20),
	}, err
}
