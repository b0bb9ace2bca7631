package admin

import (
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// Snapshot is the body of /stats.json. Times of loops are in microseconds; names ending in _s are per second.
type Snapshot struct {
	Program  string          `json:"program"`
	Version  string          `json:"version,omitempty"`
	Time     time.Time       `json:"time"`
	Uptime   float64         `json:"uptime_seconds"` // of this package's Server
	Process  Process         `json:"process"`
	Ready    bool            `json:"ready"`
	Reasons  []Reason        `json:"reasons,omitempty"`
	Servers  []ServerStats   `json:"servers"`
	Pools    []PoolStats     `json:"pools"`
	Lanes    []LaneStats     `json:"lanes"`
	Overload []OverloadStats `json:"overload"`
	// Requests is the total of the counters of CountRequests or, without any, of the loops' messages.
	Requests uint64 `json:"requests"`
	// Samples are those of the last five minutes whose Seq is above the request's "since", oldest first. Without "since"
	// there is only the latest.
	Samples []Sample `json:"samples"`
}

// Process has numbers of the Go runtime.
type Process struct {
	PID        int    `json:"pid"`
	Go         string `json:"go"`
	Processors int    `json:"gomaxprocs"`
	Goroutines uint64 `json:"goroutines"`
	Heap       uint64 `json:"heap_bytes"`   // live and not yet swept objects
	Memory     uint64 `json:"memory_bytes"` // taken from the system and not given back
}

// ServerStats are the numbers of one server; see eddy.Stats.
type ServerStats struct {
	Name         string            `json:"name"`
	Addr         string            `json:"addr,omitempty"`
	Draining     bool              `json:"draining"`
	Uptime       float64           `json:"uptime_seconds"`
	Active       int64             `json:"active"`
	Accepted     uint64            `json:"accepted"`
	Rejected     uint64            `json:"admission_rejected"`
	Refused      map[string]uint64 `json:"refused"`
	AcceptPauses uint64            `json:"accept_pauses"`
	AcceptErrors uint64            `json:"accept_errors"`
	Shed         uint64            `json:"shed"`
	Closed       map[string]uint64 `json:"closed"`
	Outbound     int64             `json:"outbound_bytes"`
	Inbound      int64             `json:"inbound_bytes"`
	Budget       int64             `json:"memory_budget_bytes"` // 0 is no limit
	Pressure     bool              `json:"memory_pressure"`
	Leaks        uint64            `json:"leaks"`
	Loops        []LoopStats       `json:"loops"`
}

// LoopStats are the numbers of one loop; see eddy.LoopStats.
type LoopStats struct {
	Name           string  `json:"name"`
	Healthy        bool    `json:"healthy"`
	Active         int64   `json:"active"`
	Utilisation    float64 `json:"utilisation"`
	LagP50         float64 `json:"lag_p50_us"`
	LagP95         float64 `json:"lag_p95_us"`
	LagP99         float64 `json:"lag_p99_us"`
	LagMax         float64 `json:"lag_max_us"`
	Stalls         uint64  `json:"stalls"`
	TaskQueue      int     `json:"task_queue"`
	Iterations     uint64  `json:"iterations"`
	Tasks          uint64  `json:"tasks"`
	Messages       uint64  `json:"messages"`
	Hops           uint64  `json:"hops"`
	HopRejects     uint64  `json:"hop_rejects"`
	BytesIn        uint64  `json:"bytes_in"`
	BytesOut       uint64  `json:"bytes_out"`
	WriteInterest  int64   `json:"write_interest"`
	Outbound       int64   `json:"outbound_bytes"`
	Inbound        int64   `json:"inbound_bytes"`
	OutboundPauses uint64  `json:"outbound_pauses"`
	WriteErrors    uint64  `json:"write_errors"`
	Resets         uint64  `json:"resets"`
	Panics         uint64  `json:"panics"`
}

// PoolStats are the numbers of one executor; see executor.Stats.
type PoolStats struct {
	Name       string `json:"name"`
	MaxWorkers int    `json:"max_workers"`
	MaxQueue   int    `json:"max_queue"`
	MaxParked  int    `json:"max_parked"`
	Workers    int    `json:"workers"`
	Running    int    `json:"running"`
	Queued     int    `json:"queued"`
	Parked     int    `json:"parked"`
	Submitted  uint64 `json:"submitted"`
	Completed  uint64 `json:"completed"`
	Rejected   uint64 `json:"rejected"`
	Exhausted  uint64 `json:"exhausted"`
	Crowded    uint64 `json:"crowded"` // refused because too many runners were parked
	Panics     uint64 `json:"panics"`
}

func serverStats(w watched) ServerStats {
	st := w.srv.Stats()
	s := ServerStats{
		Name: w.name, Draining: w.srv.Draining(), Uptime: st.Uptime.Seconds(), Active: st.Active, Accepted: st.Accepted,
		Rejected: st.AdmissionRejected, Refused: make(map[string]uint64), AcceptPauses: st.AcceptPauses, AcceptErrors: st.AcceptErrors, Shed: st.Shed,
		Closed: make(map[string]uint64), Outbound: st.Memory.Outbound, Inbound: st.Memory.Inbound, Budget: st.Memory.Budget, Pressure: st.Memory.Pressure, Leaks: st.Leaks,
		Loops: make([]LoopStats, 0, len(st.Loops)),
	}
	if a := w.srv.Addr(); a != nil {
		s.Addr = a.String()
	}
	for cause, n := range st.Refused {
		s.Refused[cause.String()] = n
	}
	for reason, n := range st.Closed {
		s.Closed[reason.String()] = n
	}
	for _, l := range st.Loops {
		s.Loops = append(s.Loops, loopStats(l))
	}
	return s
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func loopStats(l eddy.LoopStats) LoopStats {
	return LoopStats{
		Name: l.Name, Healthy: l.Healthy, Active: l.Active, Utilisation: l.Utilisation,
		LagP50: micros(l.Lag.P50), LagP95: micros(l.Lag.P95), LagP99: micros(l.Lag.P99), LagMax: micros(l.Lag.Max), Stalls: l.Stalls,
		TaskQueue: l.TaskQueueDepth, Iterations: l.Iterations, Tasks: l.Tasks, Messages: l.Messages, Hops: l.Hops, HopRejects: l.HopRejects,
		BytesIn: l.BytesIn, BytesOut: l.BytesOut, WriteInterest: l.WriteInterest, Outbound: l.OutboundBytes, Inbound: l.InboundBytes,
		OutboundPauses: l.OutboundPauses, WriteErrors: l.WriteErrors, Resets: l.Resets, Panics: l.Panics,
	}
}

func poolStats(p *executor.Pool) PoolStats {
	st := p.Stats()
	workers, queue := p.Limits()
	return PoolStats{
		Name: p.Name(), MaxWorkers: workers, MaxQueue: queue, Workers: st.Workers, Running: st.Running, Queued: st.Queued,
		Submitted: st.Submitted, Completed: st.Completed, Rejected: st.Rejected, Exhausted: st.Exhausted, Panics: st.Panics,
		Parked: st.Parked, MaxParked: st.MaxParked, Crowded: st.Crowded,
	}
}

// process reads the runtime's numbers without stopping the program.
func process() Process {
	read := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	get := func(i int) uint64 {
		if read[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return read[i].Value.Uint64()
	}
	return Process{
		PID: os.Getpid(), Go: runtime.Version(), Processors: runtime.GOMAXPROCS(0),
		Goroutines: get(0), Heap: get(1), Memory: get(2) - min(get(2), get(3)),
	}
}

// Snapshot returns the body of /stats.json, with the samples whose Seq is above since. With a negative since it has only the
// latest sample.
func (s *Server) Snapshot(since int64) Snapshot {
	servers, pools, requests := s.watching()
	now := time.Now()
	ready := s.readiness()
	snap := Snapshot{
		Program: s.o.Program, Version: s.o.Version, Time: now, Uptime: now.Sub(s.began).Seconds(), Process: process(),
		Ready: ready.Ready, Reasons: ready.Reasons, Servers: make([]ServerStats, 0, len(servers)), Pools: make([]PoolStats, 0, len(pools)),
		Lanes: s.laneStats(), Overload: s.overloadStats(), Samples: s.samples.after(since),
	}
	for _, w := range servers {
		snap.Servers = append(snap.Servers, serverStats(w))
	}
	for _, p := range pools {
		snap.Pools = append(snap.Pools, poolStats(p))
	}
	snap.Requests = measure(servers, pools, requests).requests
	return snap
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request) {
	since, err := number[int64](r, "since", -1, -1, 1<<53)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	reply(w, http.StatusOK, s.Snapshot(since))
}
