package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
	eddyrpc "github.com/go-eddy/eddy/rpc"
)

// The work of the comparison: a bottleneck that does limitPlaces calls at once, each in limitTakes on average. In the middle of a run it has half its places.
const (
	limitPlaces   = 20
	limitTakes    = 20 * time.Millisecond
	limitThreads  = 200                    // that somebody guessed
	limitPatience = 250 * time.Millisecond // of a client; a later answer is worth nothing
	limitSettle   = 3                      // part of a phase that does not count, as 1/limitSettle: the time to recover is limitPhase/limitSettle
)

// bottleneck is what all calls wait for.
type bottleneck chan struct{}

func (b bottleneck) work(ctx context.Context) error {
	select {
	case b <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(limitTakes/2 + rand.N(limitTakes))
	<-b
	return nil
}

// limiting is a way to bound how many calls run.
type limiting struct {
	name string
	pool executor.Options
	wrap func(do limitedCall) limitedCall // nil = nothing
}

type limitedCall func(ctx context.Context, body []byte) ([]byte, error)

var limitings = []limiting{
	{"adaptive pool", executor.Options{Workers: limitThreads, Queue: 1024, Adaptive: &executor.Adaptive{}}, nil},
	{"200 threads, queue 1024", executor.Options{Workers: limitThreads, Queue: 1024}, nil},
	{"20 threads, queue 1024", executor.Options{Workers: limitPlaces, Queue: 1024}, nil},
	{"20 threads, no queue", executor.Options{Workers: limitPlaces, Queue: executor.HandOff}, nil},
	{"failsafe-go's adaptive limiter", executor.Options{Workers: 10_000, Queue: executor.HandOff}, failsafe},
}

// failsafe refuses calls as the adaptive limiter of failsafe-go says, with its defaults.
func failsafe(do limitedCall) limitedCall {
	limiter := adaptivelimiter.NewBuilder[any]().WithLimits(1, limitThreads, limitPlaces).Build()
	return func(ctx context.Context, body []byte) ([]byte, error) {
		permit, ok := limiter.TryAcquirePermit()
		if !ok {
			return nil, &frame.StatusError{Status: frame.StatusBusy}
		}
		defer permit.Record()
		return do(ctx, body)
	}
}

// limits offers calls at rates from half of what the server can do to ten times of it, whatever the answers. One in so many is critical that these are a twentieth of
// what it can do. In the second third of a run the server can do half.
func limits(ctx context.Context, _ *binaries, s settings) (*report, error) {
	rep := &report{Rounds: s.rounds, Duration: s.duration.String(), Note: fmt.Sprintf(
		"Client and server in one process, by the frame protocol. The bottleneck behind the calls does %d at once in %v; in the second phase it does %d. A call counts that is answered within %v. The first third of each phase, %v, does not count.",
		limitPlaces, limitTakes, limitPlaces/2, limitPatience, s.duration/limitSettle)}
	for _, load := range []float64{0.5, 1, 2, 10} {
		g := &grid{Title: fmt.Sprintf("Offered: %v × what the server can do at first:", load), First: "limit", Columns: []column{
			{"of what is possible", "%.2f"}, {"at half", "%.2f"}, {"afterwards", "%.2f"}, {"critical p99 ms", "%.1f"}, {"at half, p99 ms", "%.1f"}, {"critical answered", "%.3f"}, {"refusal p99 ms", "%.1f"},
		}}
		rows := make([][][]float64, len(limitings))
		for round := range s.rounds {
			for i := range limitings {
				l := limitings[(i+round)%len(limitings)]
				progress("load %v: %s", load, l.name)
				row, err := l.run(ctx, load, s.duration)
				if err != nil {
					return nil, err
				}
				at := (i + round) % len(limitings)
				rows[at] = append(rows[at], row)
			}
		}
		for i, l := range limitings {
			g.add(l.name, medians(rows[i])...)
		}
		rep.Grids = append(rep.Grids, g)
	}
	return rep, nil
}

func medians(rounds [][]float64) (all []float64) {
	for c := range rounds[0] {
		var column []float64
		for _, r := range rounds {
			column = append(column, r[c])
		}
		all = append(all, median(column))
	}
	return all
}

var plainKey, criticalKey = eddyrpc.Key{Interface: "plain"}, eddyrpc.Key{Interface: "critical"}

func (l limiting) run(ctx context.Context, load float64, phase time.Duration) (row []float64, err error) {
	b := make(bottleneck, limitPlaces)
	do := limitedCall(func(ctx context.Context, body []byte) ([]byte, error) { return body, b.work(ctx) })
	if l.wrap != nil {
		do = l.wrap(do)
	}
	l.pool.Logger = slog.New(slog.DiscardHandler)
	pool, err := executor.NewFixed(l.pool)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	p, err := limitedPair(pool, do)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	var critical [2][]float64 // with all places, with half of them
	var refused []float64
	var answered, asked int
	for half := range 3 {
		places := limitPlaces
		if half == 1 {
			places /= 2
			for range limitPlaces - places {
				b <- struct{}{}
			}
		}
		o := offered{p: p, rate: load * limitPlaces / limitTakes.Seconds()}
		possible := min(o.rate, float64(places)/limitTakes.Seconds())
		if err := o.offer(ctx, phase); err != nil {
			return nil, err
		}
		row = append(row, float64(o.good)/(phase-phase/limitSettle).Seconds()/possible)
		critical[half%2] = append(critical[half%2], o.critical...)
		refused, answered, asked = append(refused, o.refused...), answered+len(o.critical), asked+o.asked
		if half == 1 {
			for range limitPlaces - places {
				<-b
			}
		}
	}
	return append(row, percentile99(critical[0]), percentile99(critical[1]), float64(answered)/float64(max(asked, 1)), percentile99(refused)), nil
}

func limitedPair(pool *executor.Pool, do limitedCall) (*pair, error) {
	srv, err := eddyrpc.NewServer(eddyrpc.ServerOptions{Isolation: eddyrpc.PerService, Logger: slog.New(slog.DiscardHandler), Ports: []eddyrpc.PortOptions{{Name: "rpc", Addr: "127.0.0.1:0"}}})
	if err != nil {
		return nil, err
	}
	p := &pair{srv: srv}
	for key, class := range map[eddyrpc.Key]limit.Class{plainKey: limit.Sheddable, criticalKey: limit.CriticalPlus} {
		svc, err := eddyrpc.NewService(key, eddyrpc.Raw("Do", do))
		if err == nil {
			err = srv.Register(svc, eddyrpc.WithPool(pool), eddyrpc.Class(class))
		}
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	if err := srv.Listen(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if p.cl, err = eddyrpc.NewClient(eddyrpc.ClientOptions{Addrs: []string{srv.Addr("rpc").String()}, ConnsPerAddr: 4, Timeout: limitPatience}); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// offered are calls at a constant rate, and what became of those that count.
type offered struct {
	p    *pair
	rate float64 // per second

	mu                sync.Mutex
	good, asked       int       // calls answered; critical ones made
	critical, refused []float64 // ms that answers of critical calls and refusals took
}

// offer makes calls for a phase and waits for their ends.
func (o *offered) offer(ctx context.Context, phase time.Duration) error {
	var pending sync.WaitGroup
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	begin, made := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		passed := time.Since(begin)
		for ; float64(made) < o.rate*min(passed, phase).Seconds(); made++ {
			pending.Add(1)
			due := begin.Add(time.Duration(float64(made) / o.rate * float64(time.Second)))
			o.call(due, passed > phase/limitSettle, &pending)
		}
		if passed >= phase {
			pending.Wait()
			return nil
		}
	}
}

func (o *offered) call(due time.Time, counts bool, pending *sync.WaitGroup) {
	key, critical := plainKey, rand.Float64()*o.rate < 0.05*limitPlaces/limitTakes.Seconds()
	if critical {
		key = criticalKey
	}
	body := []byte{}
	eddyrpc.InvokeAsync[[]byte](context.Background(), o.p.cl, key, "Do", &body).Then(func(_ *[]byte, err error) {
		defer pending.Done()
		took := time.Since(due)
		if !counts {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if critical {
			o.asked++
		}
		switch {
		case errors.Is(err, eddyrpc.ErrBusy):
			o.refused = append(o.refused, took.Seconds()*1000)
		case err != nil || took > limitPatience:
		default:
			if o.good++; critical {
				o.critical = append(o.critical, took.Seconds()*1000)
			}
		}
	})
}

func percentile99(ms []float64) float64 {
	if len(ms) == 0 {
		return 0
	}
	slices.Sort(ms)
	return ms[len(ms)*99/100]
}
