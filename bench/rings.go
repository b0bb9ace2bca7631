package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/ring"
)

// roundsOf builds the benchmarks of a package of the engine once and runs those that match. All of them run in each
// round, so that a slow minute of the machine meets every contender.
func roundsOf(ctx context.Context, b *binaries, s settings, procs int, pkg, pattern string) ([]map[string]figures, error) {
	name := filepath.Join(b.dir, filepath.Base(pkg)+".test")
	if _, err := os.Stat(name); err != nil {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", name, pkg)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	var all []map[string]figures
	for round := range s.rounds {
		progress("%s, %d processors, round %d of %d", pkg, procs, round+1, s.rounds)
		cmd := exec.CommandContext(ctx, name, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", s.duration.String(), "-test.cpu", strconv.Itoa(procs))
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
		}
		found := parseBench(string(out))
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no benchmark matches %s in\n%s", pkg, pattern, out)
		}
		all = append(all, found)
	}
	return all, nil
}

// named is a benchmark and its name in the table.
type named struct{ bench, text string }

// faster returns a table of benchmarks that do the same in different ways. Each is compared with the first within each
// round.
func faster(title, first string, rounds []map[string]figures, rows []named) (*grid, error) {
	g := &grid{Title: title, First: first, Columns: []column{
		{"ns per message", "%.1f"}, {"times as fast", "%.1f"}, {"lowest", "%.1f"}, {"highest", "%.1f"}, {"allocations", "%.0f"},
	}}
	for _, r := range rows {
		var ns, ratios, allocs []float64
		for _, round := range rounds {
			f, base := round[r.bench], round[rows[0].bench]
			if f["ns/op"] == 0 || base["ns/op"] == 0 {
				return nil, fmt.Errorf("no figure of %s or %s", r.bench, rows[0].bench)
			}
			ns, ratios, allocs = append(ns, f["ns/op"]), append(ratios, base["ns/op"]/f["ns/op"]), append(allocs, f["allocs/op"])
		}
		g.add(r.text, median(ns), median(ratios), slices.Min(ratios), slices.Max(ratios), median(allocs))
	}
	return g, nil
}

// rings compares rings with buffered channels, and measures what waiting for room costs a producer.
func rings(ctx context.Context, b *binaries, s settings) (*report, error) {
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf(
		"%d rounds, %s for each row in each. Capacity 1024, messages of 8 bytes, batches of 64; whoever has nothing to do sleeps. Medians; \"times as fast\" compares with the first row within a round.",
		s.rounds, s.duration)}
	for _, procs := range s.procs {
		inRing, err := roundsOf(ctx, b, s, procs, "./ring", "^Benchmark(OneToOne|ManyToOne|RoundTrip)$")
		if err != nil {
			return nil, err
		}
		inLanes, err := roundsOf(ctx, b, s, procs, "./executor", "^BenchmarkLanesRoundTrip$")
		if err != nil {
			return nil, err
		}
		if err := rep.ringTables(procs, inRing, inLanes); err != nil {
			return nil, err
		}
	}
	return rep, rep.blocked(ctx, s)
}

func (rep *report) ringTables(procs int, inRing, inLanes []map[string]figures) error {
	on := func(what string) string { return fmt.Sprintf("%s, GOMAXPROCS=%d:", what, procs) }
	add := func(title string, rounds []map[string]figures, rows ...named) error {
		g, err := faster(on(title), "through", rounds, rows)
		rep.Grids = append(rep.Grids, g)
		return err
	}
	if err := add("One producer, one consumer", inRing, named{"OneToOne/channel", "channel"}, named{"OneToOne/channel_of_batches", "channel of arrays of 64"},
		named{"OneToOne/spsc", "SPSC, one at a time"}, named{"OneToOne/spsc_batch", "SPSC, in batches"}); err != nil {
		return err
	}
	if err := add("Four producers, one consumer", inRing, named{"ManyToOne/channel", "channel"}, named{"ManyToOne/mpsc", "MPSC, one at a time"},
		named{"ManyToOne/mpsc_batch", "MPSC, in batches"}, named{"ManyToOne/mux", "Mux, one at a time"}, named{"ManyToOne/mux_batch", "Mux, in batches"}); err != nil {
		return err
	}
	for _, n := range []string{"1", "2", "4"} {
		who := n + " workers"
		if n == "1" {
			who = "1 worker"
		}
		at := "RoundTrip/workers=" + n + "/"
		if err := add("To "+who+" and back", inRing, named{at + "channels", "two channels, one goroutine sends and receives"},
			named{at + "channels_both_sides", "two channels, a sender and a receiver"}, named{at + "demux_mux_single", "Demux and Mux, one at a time"},
			named{at + "demux_mux", "Demux and Mux, in batches"}); err != nil {
			return err
		}
		at = "LanesRoundTrip/workers=" + n + "/"
		if err := add("The same with what executor.Lanes does for each work (contained panics, wakeups, counters)", inLanes,
			named{at + "channels", "two channels, without any of that"}, named{at + "lanes", "executor.Lanes, " + who}); err != nil {
			return err
		}
	}
	return nil
}

// blocked measures ring.SendBlocking on a full ring: how long after there is room the message is in, and what the
// waiting costs.
func (rep *report) blocked(ctx context.Context, s settings) error {
	waiters := []struct {
		name string
		make func() ring.Waiter
	}{
		{"Spin", func() ring.Waiter { return ring.Spin(0) }},
		{"Yield", func() ring.Waiter { return ring.Yield(0) }},
		{"Sleep 100 µs", func() ring.Waiter { return ring.Sleep(100*time.Microsecond, 0) }},
		{"BackOff 1 µs to 1 ms", func() ring.Waiter { return ring.BackOff(time.Microsecond, time.Microsecond, time.Millisecond) }},
		{"1000 × Spin, 100 × Yield, then BackOff", func() ring.Waiter {
			return ring.Compose(ring.Spin(1000), ring.Yield(100), ring.BackOff(time.Microsecond, 10*time.Microsecond, time.Millisecond))
		}},
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range s.procs {
		runtime.GOMAXPROCS(procs)
		g := &grid{Title: fmt.Sprintf("A producer that waits for room, which comes every 2 ms, GOMAXPROCS=%d:", procs), First: "ring.Waiter",
			Columns: []column{{"late by, p50 µs", "%.1f"}, {"p99 µs", "%.1f"}, {"processor %", "%.0f"}}}
		figures := make([][3][]float64, len(waiters))
		for round := range s.rounds {
			for i, w := range waiters {
				progress("blocked producer, %d processors, round %d of %d: %s", procs, round+1, s.rounds, w.name)
				v, err := blockedFor(ctx, w.make(), s.duration)
				if err != nil {
					return err
				}
				for k := range v {
					figures[i][k] = append(figures[i][k], v[k])
				}
			}
		}
		for i, w := range waiters {
			g.add(w.name, median(figures[i][0]), median(figures[i][1]), median(figures[i][2]))
		}
		rep.Grids = append(rep.Grids, g)
	}
	return nil
}

// blockedFor lets a producer wait for one slot again and again. It returns how late the producer was and how busy the
// process.
func blockedFor(ctx context.Context, w ring.Waiter, d time.Duration) (v [3]float64, err error) {
	q, err := ring.NewSPSC[int](1)
	if err != nil {
		return v, err
	}
	b, err := ring.NewBlocker(func() bool { return true }, w, time.Minute)
	if err != nil {
		return v, err
	}
	q.Send(0)
	var freed atomic.Int64
	begin, used := time.Now(), cpuUsed()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if q.Fetch() != nil {
				freed.Store(int64(time.Since(begin)))
				q.Release()
			}
		}
	}()
	var late []float64
	for time.Since(begin) < d && ctx.Err() == nil {
		if err = ring.SendBlocking(b, q, 1); err != nil {
			break
		}
		late = append(late, float64(int64(time.Since(begin))-freed.Load())/1e3)
	}
	elapsed, used := time.Since(begin), cpuUsed()-used
	close(stop)
	<-ended
	if err == nil && len(late) == 0 {
		err = ctx.Err()
	}
	if err != nil {
		return v, err
	}
	slices.Sort(late)
	return [3]float64{late[len(late)/2], late[len(late)*99/100], 100 * used.Seconds() / elapsed.Seconds()}, nil
}

// cpuUsed returns the processor time of this process.
func cpuUsed() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
