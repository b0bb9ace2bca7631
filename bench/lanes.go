package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// lanes measures what light requests notice of heavy ones, with a lane for each kind and with one queue for all. It also
// measures what the others notice when one request in a hundred is stuck for 100 ms, on a pool with workers to spare.
func lanes(ctx context.Context, b *binaries, s settings) (*report, error) {
	g := &grid{Title: "500 light requests a second, open loop, without and with a connection that keeps 64 heavy ones (10 ms each) waiting:", First: "server",
		Columns: disturbed}
	err := disturb(ctx, b, s, g, []contender{
		{Name: "a lane of one worker for light, one of two for heavy", binary: "lanes"},
		{Name: "one queue for all, three workers", binary: "lanes", args: []string{"-shared", "-workers", "3"}},
	}, paced{conns: 1, every: 2 * time.Millisecond}, paced{conns: 1, every: 2 * time.Millisecond, flood: 64})
	if err != nil {
		return nil, err
	}
	stuck := &grid{Title: "50 connections with 50 requests a second each, open loop, without and with every hundredth request stuck for 100 ms:", First: "server",
		Columns: disturbed}
	err = disturb(ctx, b, s, stuck, []contender{
		{Name: "a pool of 128 workers", binary: "lanes", args: []string{"-shared", "-workers", "128", "-heavy", "100ms"}},
	}, paced{conns: 50, every: 20 * time.Millisecond}, paced{conns: 50, every: 20 * time.Millisecond, heavyEach: 100})
	if err != nil {
		return nil, err
	}
	return &report{Rounds: s.rounds, Duration: s.duration.String(), Grids: []*grid{g, stuck}, Note: fmt.Sprintf(
		"%d rounds of %s each, in turn; medians over the rounds; the ratio compares p99 within a round. Only light requests are counted; latency is from the time at which a request was due.",
		s.rounds, s.duration)}, nil
}

var disturbed = []column{
	{"p50 µs", "%.0f"}, {"p99 µs", "%.0f"}, {"disturbed: p50 µs", "%.0f"}, {"p99 µs", "%.0f"}, {"ratio of p99", "%.2f"}, {"lowest", "%.2f"}, {"highest", "%.2f"},
}

// disturb runs each contender with both loads in turn and adds a row for each.
func disturb(ctx context.Context, b *binaries, s settings, g *grid, contenders []contender, calm, busy paced) (err error) {
	servers, stop, err := startAll(ctx, b, s, s.procs[0], contenders)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	values := make([][5][]float64, len(servers))
	for round := range s.rounds {
		for i, srv := range servers {
			progress("round %d of %d: %s", round+1, s.rounds, srv.Name)
			quiet, err := calm.run(ctx, srv.addr, s)
			if err != nil {
				return fmt.Errorf("%s: %w", srv.Name, err)
			}
			loud, err := busy.run(ctx, srv.addr, s)
			if err != nil {
				return fmt.Errorf("%s, disturbed: %w", srv.Name, err)
			}
			at := func(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
			for k, v := range []float64{at(quiet, 50), at(quiet, 99), at(loud, 50), at(loud, 99), at(loud, 99) / at(quiet, 99)} {
				values[i][k] = append(values[i][k], v)
			}
		}
	}
	for i, srv := range servers {
		v := values[i]
		g.add(srv.Name, median(v[0]), median(v[1]), median(v[2]), median(v[3]), median(v[4]), slices.Min(v[4]), slices.Max(v[4]))
	}
	return nil
}

// paced is a load of lines that are due at fixed times, whether earlier ones were answered or not.
type paced struct {
	conns     int
	every     time.Duration // on each connection
	heavyEach int           // one request in so many is heavy; 0 = none
	flood     int           // heavy requests that one more connection keeps waiting; 0 = none
}

// run returns the latencies of the light requests.
func (p paced) run(ctx context.Context, addr string, s settings) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	all, errs := newHistogram(), []error(nil)
	note := func(h *hdrhistogram.Histogram, err error) {
		mu.Lock()
		defer mu.Unlock()
		if h != nil {
			all.Merge(h)
		}
		errs = append(errs, err)
	}
	var flood, probes sync.WaitGroup
	if p.flood > 0 {
		flood.Go(func() { note(nil, keepWaiting(ctx, addr, p.flood)) })
		if err := wait(ctx, s.warmup); err != nil {
			return nil, err
		}
	}
	for i := range p.conns {
		probes.Go(func() { note(p.probe(ctx, addr, s, p.every*time.Duration(i)/time.Duration(p.conns))) })
	}
	probes.Wait()
	cancel()
	flood.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if all.TotalCount() == 0 {
		return nil, errors.New("no request was answered")
	}
	return all, nil
}

// probe sends the requests that are due on one connection, and reads until all are answered.
func (p paced) probe(ctx context.Context, addr string, s settings, offset time.Duration) (*hdrhistogram.Histogram, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SetDeadline(time.Now().Add(s.duration + 20*time.Second)); err != nil {
		return nil, err
	}
	n := int(s.duration / p.every)
	begin := time.Now().Add(offset)
	h := newHistogram()
	answered := make(chan error, 1)
	go func() {
		r := bufio.NewReader(c)
		for range n {
			text, err := r.ReadString('\n')
			if err != nil {
				answered <- err
				return
			}
			word, number, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
			i, err := strconv.Atoi(number)
			if err != nil || i < 0 || i >= n {
				answered <- fmt.Errorf("answer %q", text)
				return
			}
			if word == "light" {
				_ = h.RecordValue(int64(time.Since(begin.Add(p.every * time.Duration(i))))) // a value beyond its range is not counted
			}
		}
		answered <- nil
	}()
	for i := range n {
		time.Sleep(time.Until(begin.Add(p.every * time.Duration(i))))
		word := "light"
		if p.heavyEach > 0 && i%p.heavyEach == p.heavyEach/2 {
			word = "heavy"
		}
		if _, err := fmt.Fprintf(c, "%s %d\n", word, i); err != nil {
			return nil, errors.Join(err, <-answered)
		}
	}
	return h, <-answered
}

// keepWaiting keeps n heavy requests under way until ctx ends.
func keepWaiting(ctx context.Context, addr string, n int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write([]byte(strings.Repeat("heavy 0\n", n))); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	for {
		_, err := r.ReadString('\n')
		if err == nil {
			_, err = c.Write([]byte("heavy 0\n"))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
