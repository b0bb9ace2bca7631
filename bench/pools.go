package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/ring"
)

// pools measures executors: strands and keys, a pool for each of many services, and a spill queue on disk.
func pools(ctx context.Context, b *binaries, s settings) (*report, error) {
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf("%d rounds; medians.", s.rounds)}
	for _, procs := range s.procs {
		rounds, err := roundsOf(ctx, b, s, procs, "./executor", "^Benchmark(StrandSubmit|KeyedSubmit|PoolSubmit|PoolRoundTrip)$")
		if err != nil {
			return nil, err
		}
		rep.Grids = append(rep.Grids, strandTable(procs, rounds))
	}
	if err := rep.services(ctx); err != nil {
		return nil, err
	}
	return rep, rep.spill(ctx, b, s)
}

func strandTable(procs int, rounds []map[string]figures) *grid {
	g := &grid{Title: fmt.Sprintf("Items through strands and keys over a pool of 2 workers, GOMAXPROCS=%d:", procs), First: "work",
		Columns: []column{{"ns per item", "%.0f"}, {"items / s", "%.0f"}, {"allocations", "%.0f"}}}
	for _, r := range []named{
		{"PoolSubmit/workers=2", "the pool itself"}, {"PoolRoundTrip", "the pool itself, one at a time, there and back"},
		{"StrandSubmit/strands=1", "1 strand"}, {"StrandSubmit/strands=100", "100 strands"}, {"StrandSubmit/strands=10000", "10,000 strands"},
		{"KeyedSubmit/keys=1", "1 key"}, {"KeyedSubmit/keys=100", "100 keys"}, {"KeyedSubmit/keys=10000", "10,000 keys"},
	} {
		var ns, allocs []float64
		for _, round := range rounds {
			ns, allocs = append(ns, round[r.bench]["ns/op"]), append(allocs, round[r.bench]["allocs/op"])
		}
		g.add(r.text, median(ns), 1e9/median(ns), median(allocs))
	}
	return g
}

// services measures the memory of a thousand services that have a pool of up to 200 workers each.
func (rep *report) services(ctx context.Context) error {
	const services, keepAlive = 1000, time.Second
	progress("%d services with a pool each", services)
	g := &grid{Title: fmt.Sprintf("%d services with a pool of up to 200 workers each:", services), First: "state",
		Columns: []column{{"goroutines", "%.0f"}, {"bytes per pool", "%.0f"}}}
	memory := func() float64 {
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	base, goroutines := memory(), runtime.NumGoroutine()
	row := func(name string) {
		g.add(name, float64(runtime.NumGoroutine()-goroutines), (memory()-base)/services)
	}
	all := make([]*executor.Pool, services)
	defer func() {
		for _, p := range all {
			if p != nil {
				p.Close()
			}
		}
	}()
	for i := range all {
		var err error
		if all[i], err = executor.NewFixed(executor.Options{Workers: 200, KeepAlive: keepAlive}); err != nil {
			return err
		}
	}
	row("made, never used")
	gate := make(chan struct{})
	for _, n := range []int{1, 4} {
		for _, p := range all {
			for range n {
				if err := p.SubmitFunc(func() { <-gate }); err != nil {
					close(gate)
					return err
				}
			}
		}
		if n == 1 {
			row("one request in each")
		}
	}
	row("five requests in each")
	close(gate)
	if err := until(ctx, 10*time.Second, func() bool { return running(all) == 0 }); err != nil {
		return err
	}
	row("just after them")
	if err := until(ctx, 20*keepAlive, func() bool { return workers(all) == 0 }); err != nil {
		return err
	}
	row(fmt.Sprintf("idle for longer than KeepAlive (%s here, 60 s by default)", keepAlive))
	rep.Grids = append(rep.Grids, g)
	return nil
}

func running(all []*executor.Pool) (n int) {
	for _, p := range all {
		n += p.Stats().Running + p.Stats().Queued
	}
	return n
}

func workers(all []*executor.Pool) (n int) {
	for _, p := range all {
		n += p.Stats().Workers
	}
	return n
}

// until waits for a condition.
func until(ctx context.Context, limit time.Duration, cond func() bool) error {
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) {
			return errors.New("timed out")
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// spill measures the throughput of a spill queue to the disk and back.
func (rep *report) spill(ctx context.Context, b *binaries, s settings) error {
	g := &grid{Title: "A spill queue, to the disk and back:", First: "messages",
		Columns: []column{{"to disk, MB/s", "%.0f"}, {"messages / s", "%.0f"}, {"back, MB/s", "%.0f"}, {"messages / s", "%.0f"}}}
	for _, c := range []struct {
		name    string
		size, n int
		sync    bool
	}{
		{"100 B", 100, 200_000, false}, {"4 KiB", 4096, 20_000, false}, {"100 B, fsync", 100, 20_000, true}, {"4 KiB, fsync", 4096, 5_000, true},
	} {
		var v [4][]float64
		for round := range s.rounds {
			progress("spill, round %d of %d: %s", round+1, s.rounds, c.name)
			there, back, err := spillOnce(ctx, filepath.Join(b.dir, "spill"), c.size, c.n, c.sync)
			if err != nil {
				return err
			}
			mb := float64(c.size*c.n) / 1e6
			for i, x := range []float64{mb / there.Seconds(), float64(c.n) / there.Seconds(), mb / back.Seconds(), float64(c.n) / back.Seconds()} {
				v[i] = append(v[i], x)
			}
		}
		g.add(c.name, median(v[0]), median(v[1]), median(v[2]), median(v[3]))
	}
	rep.Grids = append(rep.Grids, g)
	return nil
}

// spillOnce sends n messages as fast as the disk takes them, waits until all are written, and receives them.
func spillOnce(ctx context.Context, dir string, size, n int, sync bool) (there, back time.Duration, err error) {
	s, err := ring.OpenSpill(ring.SpillOptions{Dir: dir, Memory: 1, Buffer: 4096, Sync: sync, Discard: true})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	msg := make([]byte, size)
	from := time.Now()
	for i := 0; i < n; {
		switch err := s.Send(msg); {
		case err == nil:
			i++
		case !errors.Is(err, ring.ErrFull) || s.Stats().Fault != nil || ctx.Err() != nil:
			return 0, 0, errors.Join(err, ctx.Err())
		default:
			time.Sleep(100 * time.Microsecond) // the writer is behind
		}
	}
	if err := until(ctx, time.Minute, func() bool { return s.Stats().Waiting == 0 }); err != nil {
		return 0, 0, err
	}
	there, from = time.Since(from), time.Now()
	for range n {
		if _, err := s.Recv(ctx); err != nil {
			return 0, 0, err
		}
	}
	return there, time.Since(from), nil
}
