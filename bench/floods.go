package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
	attacker := contender{Name: "flooder", binary: "flooder"}
	if err := b.build(ctx, append(slices.Clone(flooded), attacker)); err != nil {
		return nil, err
	}
	kinds, err := s.floodKinds(ctx, b.path(attacker))
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
				row, err := b.besideFlood(ctx, s, flooded[i].on(s, s.procs[0]), b.path(attacker), kind)
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
func (b *binaries) besideFlood(ctx context.Context, s settings, c contender, attacker, kind string) (row []float64, err error) {
	srv, err := start(b, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	quiet, err := askAll(ctx, srv.addr, s.cases[0].conns, s.duration)
	if err != nil {
		return nil, err
	}
	stop := func() (sent, conns float64, err error) { return 0, 0, nil }
	if kind != noFlood {
		if stop, err = flood(s, attacker, srv.addr, kind); err != nil {
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
	h, err := askAll(ctx, srv.addr, s.cases[0].conns, s.duration)
	to, cpuErr := srv.cpuTime()
	elapsed := time.Since(began)
	sent, conns, stopErr := stop()
	_, peak, memErr := srv.memory()
	if err := errors.Join(err, cpuErr, stopErr, memErr); err != nil {
		return nil, err
	}
	at := func(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return []float64{
		at(h, 50), at(h, 99), at(quiet, 99), at(h, 99) / at(quiet, 99), 100 * (to - from).Seconds() / s.duration.Seconds(),
		sent / elapsed.Seconds(), conns / elapsed.Seconds(), float64(peak) / (1 << 20),
	}, nil
}

// flood starts a process that floods addr. It shares the processor of whoever measures, who goes first. stop ends it.
func flood(s settings, attacker, addr, kind string) (stop func() (sent, conns float64, err error), err error) {
	cmd := exec.Command("nice", "-n", "19", attacker, "-addr", addr, "-kind", kind, "-conns", strconv.Itoa(s.cases[0].pipeline))
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

// askAll has n clients ask at fixed times for d, and returns the latencies from those times on.
func askAll(ctx context.Context, addr string, n int, d time.Duration) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithTimeout(ctx, d+20*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	all, errs := newHistogram(), []error(nil)
	for i := range n {
		wg.Go(func() {
			h, err := ask(ctx, addr, visitEvery*time.Duration(i)/time.Duration(n), int(d/visitEvery))
			mu.Lock()
			defer mu.Unlock()
			if errs = append(errs, err); err == nil {
				all.Merge(h)
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// ask makes n requests on one connection, and reads until all are answered.
func ask(ctx context.Context, addr string, offset time.Duration, n int) (*hdrhistogram.Histogram, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "bench", Sensitive: true}} {
		if err := enc.WriteField(f); err != nil { // none is remembered, so the block is the same for each request
			return nil, err
		}
	}
	fr := http2.NewFramer(c, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := errors.Join(fr.WriteSettings(), fr.WriteWindowUpdate(0, 1<<30)); err != nil {
		return nil, err
	}
	begin := time.Now().Add(offset)
	h := newHistogram()
	answered := make(chan error, 1)
	go func() { answered <- answers(fr, n, begin, h) }()
	for i := range n {
		time.Sleep(time.Until(begin.Add(visitEvery * time.Duration(i))))
		if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			return nil, errors.Join(err, <-answered)
		}
	}
	return h, <-answered
}

// answers reads the answers to n requests.
func answers(fr *http2.Framer, n int, begin time.Time, h *hdrhistogram.Histogram) error {
	for got := 0; got < n; {
		f, err := fr.ReadFrame()
		if err != nil {
			return fmt.Errorf("after %d of %d answers: %w", got, n, err)
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return fmt.Errorf("after %d of %d answers: %v", got, n, f)
		case *http2.RSTStreamFrame:
			return fmt.Errorf("after %d of %d answers: %v", got, n, f)
		case *http2.DataFrame:
			if f.StreamEnded() {
				got++
				due := begin.Add(visitEvery * time.Duration(f.StreamID/2))
				_ = h.RecordValue(min(max(int64(time.Since(due)), 0), int64(maxLatency))) // in range, so it cannot fail
			}
		}
	}
	return nil
}
