package benchdesk

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
)

// timed runs a measurement and adds the processor time that it cost the server.
func (r *deskRun) timed(what string, run func() (deskload.Result, error)) (*deskRate, error) {
	before := r.fleet.Faults()
	from, err := r.cpu()
	if err != nil {
		return nil, err
	}
	res, err := run()
	if err != nil {
		return nil, err
	}
	to, err := r.cpu()
	if err != nil {
		return nil, err
	}
	after := r.fleet.Faults()
	one := &deskRate{
		What: what, Messages: res.Acked, PerSecond: float64(res.Acked) / res.Elapsed.Seconds(),
		CPU: float64((to - from).Microseconds()) / float64(max(res.Sent, 1)), Refused: after.Refused + after.Busy - before.Refused - before.Busy, FirstError: after.FirstError,
	}
	one.percentiles(res.Acks, res.Peers)
	return one, nil
}

func (r *deskRun) atRate(ctx context.Context) (err error) {
	r.report.Rate, err = r.costed(ctx, "at a constant rate", func() (deskload.Result, error) { return r.fleet.Rate(ctx, r.rate, r.size, r.duration) })
	return err
}

func (r *deskRun) full(ctx context.Context) (err error) {
	r.report.Full, err = r.costed(ctx, "as many as it takes", func() (deskload.Result, error) { return r.fleet.Full(ctx, r.size, r.duration) })
	return err
}

// isolationTurns is how often either half of the comparison has its turn.
const isolationTurns = 5

// isolation compares the rate while the agents' pool is free with the rate while operations that hang fill that pool.
func (r *deskRun) isolation(ctx context.Context) error {
	free, stuck := &isolationHalf{what: "undisturbed"}, &isolationHalf{what: "while operations of agents hang"}
	for range isolationTurns {
		if err := r.turn(ctx, free); err != nil {
			return err
		}
		if err := r.occupy(ctx); err != nil {
			return err
		}
		if err := r.turn(ctx, stuck); err != nil {
			return err
		}
		if _, err := r.servers[0].ask("heal"); err != nil {
			return err
		}
	}
	r.report.Isolation = &deskIsolation{Undisturbed: *free.sum, Hanging: *stuck.sum, Delta: median(stuck.p99) - median(free.p99)}
	return nil
}

// agentRunning and agentWaiting are how many operations of one agent may run and wait. agentWorkers is how many of all
// agents may run. All three are defaults of the hub.
const (
	agentRunning = 4
	agentWaiting = 16
	agentWorkers = 64
)

// occupy makes operations of agents hang and waits until they take every place that they can get.
func (r *deskRun) occupy(ctx context.Context) error {
	if _, err := r.servers[0].ask("hang"); err != nil {
		return err
	}
	if err := r.fleet.Occupy(agentRunning + agentWaiting); err != nil {
		return err
	}
	for {
		text, err := r.servers[0].ask("hung")
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(text); err != nil || n >= min(agentWorkers, r.agents*agentRunning) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isolationHalf is what the turns of one half have found.
type isolationHalf struct {
	what        string
	sum         *deskRate
	acks, peers *hdrhistogram.Histogram
	p99         []float64 // of acknowledgements, of each turn
}

// turn measures for a short time and adds to what was found before.
func (r *deskRun) turn(ctx context.Context, h *isolationHalf) error {
	var res deskload.Result
	one, err := r.timed(h.what, func() (_ deskload.Result, err error) {
		res, err = r.fleet.Rate(ctx, r.rate, r.size, r.duration/isolationTurns)
		return res, err
	})
	if err != nil {
		return err
	}
	h.p99 = append(h.p99, one.AckP99)
	if h.sum == nil {
		h.sum, h.acks, h.peers = one, res.Acks, res.Peers
		return nil
	}
	h.acks.Merge(res.Acks)
	h.peers.Merge(res.Peers)
	h.sum.add(one)
	h.sum.percentiles(h.acks, h.peers)
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// idleVisitors measures what a connected visitor costs the server.
func (r *deskRun) idleVisitors(ctx context.Context) error {
	if err := r.renew(); err != nil {
		return err
	}
	if err := r.fleet.AddCustomers(ctx, 100); err != nil { // so that what the server allocates once is not measured
		return err
	}
	before, err := r.servers[0].memory()
	if err != nil {
		return err
	}
	if err := r.fleet.AddCustomers(ctx, r.idle); err != nil {
		return err
	}
	after, err := r.servers[0].memory()
	r.report.Idle = &deskIdle{Visitors: r.idle, Bytes: float64(after-before) / float64(r.idle)}
	return err
}

// reconnected kills the server under its clients, each of which has just sent a message, and starts it again.
func (r *deskRun) reconnected(ctx context.Context) error {
	if err := r.crowd(ctx, r.reconnect); err != nil {
		return err
	}
	before := r.fleet.Faults()
	r.fleet.Outage()
	if err := r.fleet.Say(r.size); err != nil {
		return err
	}
	killed := time.Now()
	if err := r.servers[0].kill(); err != nil {
		return err
	}
	if err := r.again(0); err != nil {
		return err
	}
	listening := time.Now()
	r.t.Note("bench desk: the server listens again")
	resumed, err := r.resumed(ctx, listening, before)
	if err != nil {
		return err
	}
	resumed.Visitors = r.reconnect
	r.report.Reconnect = &deskReconnect{deskResumed: resumed, Started: float64(listening.Sub(killed).Microseconds()) / 1e3}
	return nil
}

// again starts a server that has ended, at the address that it had.
func (r *deskRun) again(i int) error {
	p, err := startDeskServer(r.flags(i, r.servers[i].addr))
	if err == nil {
		r.servers[i] = p
	}
	return err
}

// resumed waits until all clients have resumed. Times count from a moment, and faults from those of before.
func (r *deskRun) resumed(ctx context.Context, from time.Time, before deskload.Faults) (deskResumed, error) {
	if err := r.fleet.Resumed(ctx); err != nil {
		return deskResumed{}, err
	}
	done := time.Since(from)
	times, connects := r.fleet.Resumes(from)
	seconds := func(p float64) float64 { return time.Duration(times.ValueAtPercentile(p)).Seconds() }
	return deskResumed{Seconds: done.Seconds(), P50: seconds(50), P99: seconds(99), Connects: connects, Faults: r.fleet.Faults().Sub(before)}, nil
}
