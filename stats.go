package eddy

import (
	"time"

	"github.com/go-eddy/eddy/internal/meter"
)

// Publish makes the iteration's gauges visible, and wakes the pools that the iteration gave work to.
func (l *loop) Publish() {
	l.wakePools()
	l.publishMemory()
	l.Stats.Set(meter.WriteInterest, l.writeInterest)
	l.Stats.Set(meter.Active, int64(l.table.Active()))
	l.Stats.Set(meter.Deadlines, int64(l.deadlines.wheel.Len()))
}

// LoopStats are the numbers of one loop since its start.
type LoopStats struct {
	Name            string
	Active          int64  // open connections
	Iterations      uint64 // iterations of the loop; one per wait
	Events          uint64 // readiness events
	StaleEvents     uint64 // events of connections that had ended
	PollErrors      uint64
	Tasks           uint64 // tasks run
	TaskQueueDepth  int
	TaskQueueLimit  int    // bound of the task queue
	Messages        uint64 // inbound messages dispatched
	Hops            uint64 // events handed to executors
	HopRejects      uint64 // of those, refused by the executor
	HopWaits        uint64 // of those, messages kept until there is room
	BytesIn         uint64
	BytesSpliced    uint64 // of BytesIn, those that the kernel has moved to another connection, see Context.SpliceTo
	BytesOut        uint64
	WriteCalls      uint64
	WriteInterest   int64  // connections that wait for writability
	OutboundBytes   int64  // queued for peers; writes from other goroutines count once the loop has taken them
	InboundBytes    int64  // received and not decoded yet, or kept: see Context.KeepInput
	Opened          uint64 // connections taken over
	Refused         uint64 // accepted connections that the loop could not take over
	DeadReads       uint64 // messages for connections that had ended
	DeadWrites      uint64 // writes to connections that had ended
	Unhandled       uint64 // messages that passed the tail of a pipeline
	WriteErrors     uint64
	Resets          uint64
	Panics          uint64
	DroppedNewest   uint64 // messages of classes that were dropped, by OverflowDropNewest or for want of room
	DroppedOldest   uint64 // the same, by OverflowDropOldest
	Superseded      uint64 // the same, by OverflowKeepLatest
	OutboundPauses  uint64 // times an outbound queue reached its high watermark
	PhaseViolations uint64
	TailCallbacks   uint64 // functions of Loop.Tail that were run
	Timers          uint64 // runs of timers
	Deadlines       int64  // connections with a deadline in the wheel
	Premature       uint64 // waits that returned early, with no event and no wakeup
	Rebuilds        uint64 // times the poller was replaced
	Repolls         uint64 // times the poller was asked twice in an iteration, after many closes
	Faults          uint64 // panics of the engine itself that were contained
	Stalls          uint64 // iterations longer than Group.StallThreshold
	Healthy         bool   // false while the poller fails; the loop then gets no new connections
	Busy            time.Duration
	Utilisation     float64 // busy share of the last second, 0 to 1
	Lag             Lag
}

// Stats are the numbers of a server since Listen. Taking them costs no lock and disturbs no loop; they are at most one
// iteration old.
type Stats struct {
	Uptime            time.Duration // time since Listen, fixed once the server has ended
	Loops             []LoopStats   // workers; loops of a shared Group count for all its users
	Boss              LoopStats     // zero when the listener lives on a worker
	SharedLoops       bool          // Loops belong to Server.Group
	SharedBoss        bool          // Boss belongs to Server.Boss
	Active            int64         // connections admitted and not yet closed
	MaxConns          int           // Server.MaxConns
	Accepted          uint64
	AdmissionRejected uint64                 // connections refused, all causes together
	Refused           map[RefuseCause]uint64 // the same by cause
	AcceptPauses      uint64                 // times accepting stopped for want of room or of descriptors
	AcceptErrors      uint64
	Shed              uint64 // accepted and closed at once because descriptors had run out
	Placing           int64  // of Active, connections that wait for their first bytes, see Placement
	Placed            uint64 // connections whose loop Placement.Choose has named
	Unplaced          uint64 // connections that Placement left to the Chooser
	EndedPlacing      uint64 // connections that ended while they waited for their first bytes
	EndedIdle         uint64 // connections that EndIdle has asked to end
	EndedKeepAlive    uint64 // connections that EndKeepAlive has asked to end
	Memory            MemoryStats
	ExecutorPanics    uint64                 // panics of handlers on pools
	LiveBuffers       int                    // counted buffers of the group not released yet
	Leaks             uint64                 // watched buffers of the group dropped without a release
	Closed            map[CloseReason]uint64 // refused connections included

	// Closed by tenant, for connections that have one, and by the peers' networks, such as "10.0.0.0/24" and "2001:db8:1::/48".
	// All beyond the first thousand of each count as "other".
	Tenants, Networks map[string]map[CloseReason]uint64
}

// uptime returns how long the server has served so far, or did serve.
func (s *Server) uptime(e *engine) time.Duration {
	end := e.ended.Load()
	if end == 0 {
		end = e.kernel.clock.Now()
	}
	return time.Duration(end - e.began)
}

// Stats returns the numbers so far. Any goroutine; after the server has stopped they stay fixed.
func (s *Server) Stats() Stats {
	n := &s.endpoint
	st := Stats{
		Active:            n.tally.Active.Load(),
		MaxConns:          s.MaxConns,
		Accepted:          n.tally.Accepted.Load(),
		AdmissionRejected: n.closed[CloseAdmissionRejected].Load(),
		Refused:           n.tally.Refused(),
		AcceptPauses:      n.tally.Pauses.Load(),
		AcceptErrors:      n.tally.Errors.Load(),
		Shed:              n.tally.Shed.Load(),
		Placing:           n.tally.Placing.Load(),
		Placed:            n.tally.Placed.Load(),
		Unplaced:          n.tally.Unplaced.Load(),
		EndedPlacing:      n.tally.Lost.Load(),
		EndedIdle:         n.relief.ended[reliefIdle].Load(),
		EndedKeepAlive:    n.relief.ended[reliefKeepAlive].Load(),
		ExecutorPanics:    n.hopPanics.Load(),
		Closed:            closes(&n.closed),
		Tenants:           labelCounts(&n.tenants),
		Networks:          labelCounts(&n.networks),
	}
	e := s.running()
	if e == nil {
		return st
	}
	st.Uptime = s.uptime(e)
	st.SharedLoops, st.SharedBoss = !e.ownGroup, e.boss != nil && !e.ownBoss
	st.Memory = n.budget.snapshot()
	crew := e.group.crew.Load()
	st.LiveBuffers, st.Leaks = crew.shared.Live(), crew.leaks.Found()
	for _, l := range e.workers {
		st.Loops = append(st.Loops, l.snapshot())
	}
	if e.boss != nil {
		st.Boss = e.boss.snapshot()
	}
	return st
}

func (l *loop) snapshot() LoopStats {
	get := l.Stats.Count
	now := l.Clock.Now()
	return LoopStats{
		Name:            l.Name,
		Active:          l.Stats.Value(meter.Active),
		Iterations:      get(meter.Iterations),
		Events:          get(meter.Events),
		StaleEvents:     get(meter.StaleEvents),
		PollErrors:      get(meter.PollErrors),
		Tasks:           get(meter.Tasks),
		TaskQueueDepth:  l.Tasks.Depth(),
		TaskQueueLimit:  l.Tasks.Limit,
		Messages:        get(meter.Messages),
		Hops:            get(meter.Hops),
		HopRejects:      get(meter.HopRejects),
		HopWaits:        get(meter.HopWaits),
		BytesIn:         get(meter.BytesIn),
		BytesSpliced:    get(meter.Spliced),
		BytesOut:        get(meter.BytesOut),
		WriteCalls:      get(meter.Writes),
		WriteInterest:   l.Stats.Value(meter.WriteInterest),
		OutboundBytes:   l.Stats.Value(meter.HeldOut),
		InboundBytes:    l.Stats.Value(meter.HeldIn),
		Opened:          get(meter.Opened),
		Refused:         get(meter.Refused),
		DeadReads:       get(meter.DeadReads),
		DeadWrites:      get(meter.DeadWrites),
		Unhandled:       get(meter.Unhandled),
		WriteErrors:     get(meter.WriteErrors),
		Resets:          get(meter.Resets),
		Panics:          get(meter.Panics),
		DroppedNewest:   get(meter.DroppedNewest),
		DroppedOldest:   get(meter.DroppedOldest),
		Superseded:      get(meter.Superseded),
		OutboundPauses:  get(meter.OutboundPauses),
		PhaseViolations: get(meter.PhaseViolations),
		TailCallbacks:   get(meter.Tail),
		Timers:          get(meter.Timers),
		Deadlines:       l.Stats.Value(meter.Deadlines),
		Premature:       get(meter.Premature),
		Rebuilds:        get(meter.Rebuilds),
		Repolls:         get(meter.Repolls),
		Faults:          get(meter.Faults),
		Stalls:          l.Vitals.Stalls.Load(),
		Healthy:         l.Healthy(),
		Busy:            l.Lag.Busy(),
		Utilisation:     l.Lag.Utilisation(now),
		Lag:             Lag(l.Lag.Snapshot(now)),
	}
}
