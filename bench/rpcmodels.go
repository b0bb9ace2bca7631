package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	eddyrpc "github.com/go-eddy/eddy/rpc"
)

// rpcModels compares the package with itself, in this process. The comparisons are the two models of consumers with many
// services, shared and isolated pools beside a stuck service, and a server at twice its capacity.
func rpcModels(ctx context.Context, _ *binaries, s settings) (*report, error) {
	rep := &report{Duration: s.duration.String(), Note: "Client and server in one process."}
	for _, part := range []func(context.Context, settings) (*grid, error){consumers, isolation, overload} {
		g, err := part(ctx, s)
		if err != nil {
			return nil, err
		}
		rep.Grids = append(rep.Grids, g)
	}
	return rep, nil
}

// pair is a server and its client.
type pair struct {
	srv *eddyrpc.Server
	cl  *eddyrpc.Client
}

func (p *pair) close() error {
	var err error
	if p.cl != nil {
		err = p.cl.Close()
	}
	return errors.Join(err, p.srv.Close())
}

// newPair serves the services, each of which has one method, Do.
func newPair(so eddyrpc.ServerOptions, port eddyrpc.PortOptions, co eddyrpc.ClientOptions, services map[eddyrpc.Key]func(context.Context, []byte) ([]byte, error)) (*pair, error) {
	quiet := slog.New(slog.DiscardHandler)
	port.Name, port.Addr = "rpc", "127.0.0.1:0"
	so.Ports, so.Logger = []eddyrpc.PortOptions{port}, quiet
	srv, err := eddyrpc.NewServer(so)
	if err != nil {
		return nil, err
	}
	p := &pair{srv: srv}
	for key, do := range services {
		svc, err := eddyrpc.NewService(key, eddyrpc.Raw("Do", do))
		if err == nil {
			err = srv.Register(svc)
		}
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if err := srv.Listen(); err != nil {
		return nil, err
	}
	co.Addrs, co.Logger, co.Timeout = []string{srv.Addr("rpc").String()}, quiet, time.Minute
	if p.cl, err = eddyrpc.NewClient(co); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// tally is what callers have measured.
type tally struct {
	mu         sync.Mutex
	done, busy *hdrhistogram.Histogram
	failed     error
}

func newTally() *tally { return &tally{done: newHistogram(), busy: newHistogram()} }

func (t *tally) add(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		_ = t.done.RecordValue(int64(min(took, maxLatency)))
	case errors.Is(err, eddyrpc.ErrBusy):
		_ = t.busy.RecordValue(int64(min(took, maxLatency)))
	case t.failed == nil:
		t.failed = err
	}
}

func millis(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e6
}

// callAll keeps n callers calling the keys in turn until stop is closed. A caller that is refused waits as long as it is
// told.
func (p *pair) callAll(n int, keys []eddyrpc.Key, t *tally, stop <-chan struct{}, wg *sync.WaitGroup) {
	for i := range n {
		wg.Go(func() {
			body := pattern(128, 0)
			for turn := i; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				from := time.Now()
				_, err := eddyrpc.Invoke[[]byte](context.Background(), p.cl, keys[turn%len(keys)], "Do", body)
				t.add(time.Since(from), err)
				if e, ok := errors.AsType[*eddyrpc.Error](err); ok && e.RetryAfter > 0 {
					select {
					case <-stop:
					case <-time.After(e.RetryAfter):
					}
				}
			}
		})
	}
}

func echoBody(_ context.Context, body []byte) ([]byte, error) { return body, nil }

// consumers measures a gateway: 64 callers of 100 services.
func consumers(ctx context.Context, s settings) (*grid, error) {
	const services, callers = 100, 64
	g := &grid{Title: fmt.Sprintf("%d callers of %d services in turn, 128 B, by who decodes the responses:", callers, services), First: "consumer",
		Columns: []column{{"goroutines of the client", "%.0f"}, {"heap and stacks, KiB", "%.0f"}, {"calls / s", "%.0f"}, {"p50 ms", "%.3f"}, {"p99 ms", "%.3f"}, {"p99.9 ms", "%.3f"}}}
	var keys []eddyrpc.Key
	methods := map[eddyrpc.Key]func(context.Context, []byte) ([]byte, error){}
	for i := range services {
		key := eddyrpc.Key{Interface: fmt.Sprintf("bench.Service%d", i)}
		keys, methods[key] = append(keys, key), echoBody
	}
	for _, c := range []struct {
		name string
		kind eddyrpc.Consumer
	}{{"the caller", eddyrpc.CallerRuns}, {"a pool per service", eddyrpc.DedicatedPool}} {
		progress("consumers: %s", c.name)
		p, err := newPair(eddyrpc.ServerOptions{}, eddyrpc.PortOptions{Dispatcher: eddyrpc.DispatchDirect}, eddyrpc.ClientOptions{Consumer: c.kind}, methods)
		if err != nil {
			return nil, err
		}
		goroutines, memory := runtime.NumGoroutine(), inUse() // with the client's own loop, which both have
		t, stop := newTally(), make(chan struct{})
		var wg sync.WaitGroup
		from := time.Now()
		p.callAll(callers, keys, t, stop, &wg)
		err = wait(ctx, s.duration)
		grown := runtime.NumGoroutine() - goroutines - callers
		close(stop)
		wg.Wait()
		took := time.Since(from)
		kept := inUse() - memory
		if err = errors.Join(err, t.failed, p.close()); err != nil {
			return nil, err
		}
		g.add(c.name, float64(grown), float64(kept)/1024, float64(t.done.TotalCount())/took.Seconds(), millis(t.done, 50), millis(t.done, 99), millis(t.done, 99.9))
	}
	return g, nil
}

// inUse returns the memory in use after a garbage collection.
func inUse() int64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// isolation measures a service that answers at once, beside one whose calls take 100 ms and are more than its threads.
func isolation(ctx context.Context, s settings) (*grid, error) {
	const threads, stuck, callers = 16, 64, 4
	g := &grid{Title: fmt.Sprintf("%d callers of a fast service, beside %d of one that takes 100 ms; pools of %d threads:", callers, stuck, threads), First: "isolation",
		Columns: []column{{"fast calls / s", "%.0f"}, {"fast p50 ms", "%.3f"}, {"fast p99 ms", "%.3f"}, {"fast calls refused, %", "%.1f"}, {"slow calls / s", "%.0f"}}}
	fast, slow := eddyrpc.Key{Interface: "bench.Fast"}, eddyrpc.Key{Interface: "bench.Slow"}
	methods := map[eddyrpc.Key]func(context.Context, []byte) ([]byte, error){fast: echoBody, slow: func(_ context.Context, body []byte) ([]byte, error) {
		time.Sleep(100 * time.Millisecond)
		return body, nil
	}}
	for _, c := range []struct {
		name  string
		kind  eddyrpc.Isolation
		stuck int
	}{{"shared, the slow service is not called", eddyrpc.Shared, 0}, {"shared", eddyrpc.Shared, stuck}, {"service", eddyrpc.PerService, stuck}} {
		progress("isolation: %s", c.name)
		p, err := newPair(eddyrpc.ServerOptions{Isolation: c.kind}, eddyrpc.PortOptions{Pool: eddyrpc.PoolOptions{Threads: threads}}, eddyrpc.ClientOptions{ConnsPerAddr: 2}, methods)
		if err != nil {
			return nil, err
		}
		quick, late, stop := newTally(), newTally(), make(chan struct{})
		var wg sync.WaitGroup
		p.callAll(c.stuck, []eddyrpc.Key{slow}, late, stop, &wg)
		p.callAll(callers, []eddyrpc.Key{fast}, quick, stop, &wg)
		err = wait(ctx, s.duration)
		close(stop)
		wg.Wait()
		if err = errors.Join(err, quick.failed, late.failed, p.close()); err != nil {
			return nil, err
		}
		all := quick.done.TotalCount() + quick.busy.TotalCount()
		g.add(c.name, float64(quick.done.TotalCount())/s.duration.Seconds(), millis(quick.done, 50), millis(quick.done, 99),
			100*float64(quick.busy.TotalCount())/float64(max(all, 1)), float64(late.done.TotalCount())/s.duration.Seconds())
	}
	return g, nil
}

// overload measures a server that consists of a pool. First come as many callers as the pool has threads, then a
// constant rate of twice what these got.
func overload(ctx context.Context, s settings) (*grid, error) {
	const threads, work = 16, 10 * time.Millisecond
	g := &grid{Title: fmt.Sprintf("Calls that take %v on a pool of %d threads without a queue:", work, threads), First: "load",
		Columns: []column{{"offered / s", "%.0f"}, {"answered / s", "%.0f"}, {"refused / s", "%.0f"}, {"p99 ms", "%.1f"}, {"refused p50 ms", "%.2f"}, {"refused p99 ms", "%.2f"}, {"refused max ms", "%.1f"}, {"memory at the end, KiB more", "%.0f"}}}
	key := eddyrpc.Key{Interface: "bench.Work"}
	p, err := newPair(eddyrpc.ServerOptions{}, eddyrpc.PortOptions{Pool: eddyrpc.PoolOptions{Threads: threads}}, eddyrpc.ClientOptions{}, map[eddyrpc.Key]func(context.Context, []byte) ([]byte, error){
		key: func(_ context.Context, body []byte) ([]byte, error) { time.Sleep(work); return body, nil }})
	if err != nil {
		return nil, err
	}
	row := func(name string, load func(*tally) (offered int64, err error)) error {
		progress("overload: %s", name)
		memory, t, from := inUse(), newTally(), time.Now()
		offered, err := load(t)
		sec := time.Since(from).Seconds()
		if err = errors.Join(err, t.failed); err == nil {
			g.add(name, float64(offered)/sec, float64(t.done.TotalCount())/sec, float64(t.busy.TotalCount())/sec, millis(t.done, 99),
				millis(t.busy, 50), millis(t.busy, 99), float64(t.busy.Max())/1e6, float64(inUse()-memory)/1024)
		}
		return err
	}
	var peak float64
	err = row("as many callers as threads", func(t *tally) (int64, error) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		p.callAll(threads, []eddyrpc.Key{key}, t, stop, &wg)
		err := wait(ctx, s.duration)
		close(stop)
		wg.Wait()
		peak = float64(t.done.TotalCount()) / s.duration.Seconds()
		return t.done.TotalCount() + t.busy.TotalCount(), err
	})
	for _, times := range []int{1, 2, 4} {
		if err == nil {
			err = row(fmt.Sprintf("constant rate, %d × that", times), func(t *tally) (int64, error) {
				return p.constant(ctx, key, float64(times)*peak, s.duration, t)
			})
		}
	}
	return g, errors.Join(err, p.close())
}

// constant calls at a constant rate, whatever the answers do, and measures from when each call was due.
func (p *pair) constant(ctx context.Context, key eddyrpc.Key, rate float64, d time.Duration, t *tally) (offered int64, err error) {
	var pending atomic.Int64
	from := time.Now()
	end := from.Add(d)
	body := pattern(128, 0)
	for {
		due := from.Add(time.Duration(float64(offered) / rate * float64(time.Second)))
		if !due.Before(end) {
			break
		}
		if err := wait(ctx, time.Until(due)); err != nil {
			return offered, err
		}
		offered++
		pending.Add(1)
		eddyrpc.InvokeAsync[[]byte](ctx, p.cl, key, "Do", body).Then(func(_ *[]byte, err error) {
			t.add(time.Since(due), err)
			pending.Add(-1)
		})
	}
	for pending.Load() > 0 {
		if err := wait(ctx, time.Millisecond); err != nil {
			return offered, err
		}
	}
	return offered, nil
}
