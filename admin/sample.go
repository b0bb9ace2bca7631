package admin

import (
	"context"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

const (
	sampleEvery = time.Second
	keptSamples = 300
)

// Sample has the numbers of one second, of all watched servers and pools together.
type Sample struct {
	Seq         int64  `json:"seq"` // one more than in the previous sample
	At          int64  `json:"at"`  // Unix milliseconds
	Connections int64  `json:"connections"`
	Goroutines  uint64 `json:"goroutines"`
	Heap        uint64 `json:"heap_bytes"`

	Accepted float64 `json:"accepted_s"`
	BytesIn  float64 `json:"bytes_in_s"`
	BytesOut float64 `json:"bytes_out_s"`
	Requests float64 `json:"requests_s"`

	// The maximum over the loops. Lag is that of the last 30 to 60 seconds, utilisation that of the last second.
	LagP50      float64 `json:"lag_p50_us"`
	LagP95      float64 `json:"lag_p95_us"`
	LagP99      float64 `json:"lag_p99_us"`
	LagMax      float64 `json:"lag_max_us"`
	Utilisation float64 `json:"utilisation"`

	TaskQueue int   `json:"task_queue"` // of all loops
	Outbound  int64 `json:"outbound_bytes"`
	Inbound   int64 `json:"inbound_bytes"`

	PoolRunning  int     `json:"pool_running"`
	PoolQueued   int     `json:"pool_queued"`
	PoolRejected float64 `json:"pool_rejected_s"`

	Closed map[string]uint64 `json:"closed,omitempty"` // in this second, by reason
}

// totals holds the numbers measured at one moment.
type totals struct {
	at                          time.Time
	accepted                    uint64
	in, out, requests, rejected uint64
	closed                      map[eddy.CloseReason]uint64
	now                         Sample
}

// measure reads the numbers of all servers, pools and counters. Loops that several servers share count once.
func measure(servers []watched, pools []*executor.Pool, requests []func() uint64) totals {
	t := totals{at: time.Now(), closed: make(map[eddy.CloseReason]uint64)}
	seen := make(map[*eddy.Loop]bool)
	var messages uint64
	for _, w := range servers {
		st := w.srv.Stats()
		t.accepted += st.Accepted
		t.now.Connections += st.Active
		t.now.Outbound += st.Memory.Outbound
		t.now.Inbound += st.Memory.Inbound
		for reason, n := range st.Closed {
			t.closed[reason] += n
		}
		handles := w.srv.Workers()
		for i, l := range st.Loops {
			if i >= len(handles) || seen[handles[i]] {
				continue
			}
			seen[handles[i]] = true
			t.in += l.BytesIn
			t.out += l.BytesOut
			messages += l.Messages
			t.now.loop(l)
		}
	}
	for _, p := range pools {
		st := p.Stats()
		t.rejected += st.Rejected
		t.now.PoolRunning += st.Running
		t.now.PoolQueued += st.Queued
	}
	if len(requests) == 0 {
		t.requests = messages
	}
	for _, f := range requests {
		t.requests += f()
	}
	return t
}

// loop adds the present numbers of one loop.
func (s *Sample) loop(l eddy.LoopStats) {
	s.LagP50 = max(s.LagP50, micros(l.Lag.P50))
	s.LagP95 = max(s.LagP95, micros(l.Lag.P95))
	s.LagP99 = max(s.LagP99, micros(l.Lag.P99))
	s.LagMax = max(s.LagMax, micros(l.Lag.Max))
	s.Utilisation = max(s.Utilisation, l.Utilisation)
	s.TaskQueue += l.TaskQueueDepth
}

// since makes a sample of the changes from the totals was to t.
func (t totals) since(was totals) Sample {
	s := t.now
	s.At = t.at.UnixMilli()
	seconds := max(t.at.Sub(was.at).Seconds(), 0.001)
	rate := func(now, before uint64) float64 {
		if now < before { // the total shrinks when a part is no longer counted
			return 0
		}
		return float64(now-before) / seconds
	}
	s.Accepted, s.Requests = rate(t.accepted, was.accepted), rate(t.requests, was.requests)
	s.BytesIn, s.BytesOut = rate(t.in, was.in), rate(t.out, was.out)
	s.PoolRejected = rate(t.rejected, was.rejected)
	for reason, n := range t.closed {
		if n > was.closed[reason] {
			if s.Closed == nil {
				s.Closed = make(map[string]uint64)
			}
			s.Closed[reason.String()] = n - was.closed[reason]
		}
	}
	p := process()
	s.Goroutines, s.Heap = p.Goroutines, p.Heap
	return s
}

// sampler keeps the samples of the last five minutes, so that a newly opened page can show them.
type sampler struct {
	s *Server

	mu   sync.Mutex
	was  totals
	kept []Sample // oldest first
	seq  int64
}

func newSampler(s *Server) *sampler { return &sampler{s: s} }

// run takes samples until ctx ends.
func (k *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	k.take()
	for {
		select {
		case <-tick.C:
			k.take()
		case <-ctx.Done():
			return
		}
	}
}

// take measures and keeps one sample.
func (k *sampler) take() {
	now := measure(k.s.watching())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.was.at.IsZero() {
		k.was = now
	}
	next := now.since(k.was)
	k.was = now
	k.seq++
	next.Seq = k.seq
	if len(k.kept) == keptSamples {
		k.kept = append(k.kept[:0], k.kept[1:]...)
	}
	k.kept = append(k.kept, next)
}

// after returns the kept samples with a Seq above seq. With a negative seq it returns only the latest.
func (k *sampler) after(seq int64) []Sample {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := len(k.kept)
	switch {
	case seq < 0:
		from = max(0, from-1)
	default:
		for from > 0 && k.kept[from-1].Seq > seq {
			from--
		}
	}
	return append([]Sample{}, k.kept[from:]...)
}
