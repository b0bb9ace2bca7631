package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// afterFailure is how long a visitor without a rate waits before it tries again.
const afterFailure = 10 * time.Millisecond

// Churn makes visits: connect, shake hands, one request, its answer, and leave with a reset, so that the ports suffice.
// Conns visitors make one visit after the other. With a Rate, that many visits a second are due, and at most Conns are
// under way. The latency is that of a whole visit, with a Rate from when it was due. A visit that fails is counted, and
// the next one made. Otherwise Churn is like Run.
func Churn(ctx context.Context, o Options, progress func(*Result)) (*Result, error) {
	o.InFlight = 1
	if err := o.Check(); err != nil {
		return nil, err
	}
	g := newGenerator(o)
	if _, err := g.visit(ctx); err != nil {
		return nil, err
	}
	window := time.Now().Add(o.Warmup)
	v := &visits{g: g, t: schedule{from: window.Add(-o.Warmup), window: window, end: window.Add(o.Duration), o: o}}
	v.t.o.Conns = 1 // all visits have one schedule
	ctx, cancel := context.WithDeadline(ctx, v.t.end)
	defer cancel()
	var visitors sync.WaitGroup
	for i := range o.Conns {
		visitors.Go(func() { v.make(ctx, g.shards[i%len(g.shards)]) })
	}
	done := make(chan struct{})
	go func() { visitors.Wait(); close(done) }()
	g.report(done, window, progress)
	v.rest()
	return g.result(min(max(time.Since(window), 0), o.Duration)), nil
}

// visits are the visits of one run.
type visits struct {
	g    *generator
	t    schedule
	next atomic.Int64
}

// make makes visits until ctx ends.
func (v *visits) make(ctx context.Context, s *shard) {
	for ctx.Err() == nil {
		from := time.Now()
		if v.t.o.Rate > 0 {
			from = v.t.due(v.next.Add(1) - 1)
			if !from.Before(v.t.end) || !sleep(ctx, time.Until(from)) {
				v.unanswered(s, from)
				return
			}
		}
		refused, err := v.g.visit(ctx)
		now := time.Now()
		switch {
		case err != nil && (ctx.Err() != nil || !now.Before(v.t.end)): // only the end of the run
			if v.t.o.Rate > 0 {
				v.unanswered(s, from)
			}
			return
		case err != nil:
			v.g.faults.add(err)
			if v.t.o.Rate == 0 {
				sleep(ctx, afterFailure)
			}
		case !v.counts(from, now):
		default:
			s.mu.Lock()
			s.answer(now.Sub(from), refused)
			s.mu.Unlock()
		}
	}
}

// counts reports whether a visit belongs to the measurement. With a rate the time when it was due decides, else its end.
func (v *visits) counts(from, to time.Time) bool {
	if v.t.o.Rate > 0 {
		return !from.Before(v.t.window)
	}
	return !to.Before(v.t.window)
}

// unanswered notes a visit that was due and has not ended.
func (v *visits) unanswered(s *shard, due time.Time) {
	now := time.Now()
	if now.After(v.t.end) {
		now = v.t.end
	}
	if due.Before(v.t.window) || !due.Before(now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered++
	record(s.latencies, now.Sub(due))
}

// rest notes the visits that were due and that no visitor made.
func (v *visits) rest() {
	if v.t.o.Rate == 0 {
		return
	}
	now := time.Now()
	for due := v.t.due(v.next.Load()); due.Before(v.t.end) && due.Before(now); due = v.t.due(v.next.Load()) {
		v.unanswered(v.g.shards[0], due)
		v.next.Add(1)
	}
}

// visit makes one visit, and reports whether its request was refused.
func (g *generator) visit(ctx context.Context) (refused bool, err error) {
	c, err := g.dial(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	c.reset()
	if err := c.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return false, err
	}
	if _, err := c.Write(c.requests(1)); err != nil {
		return false, err
	}
	n, err := c.receive(c.Conn)
	if n == 1 { // complete, whatever happens to the connection after that
		r, ok := c.protocol.(refuser)
		return ok && r.refused()[0], nil
	}
	if err == nil {
		err = wrong("%d answers to 1 request", n)
	}
	return false, err
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
