package metrics

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// The label "group" of a loop is the name of its source: a Group, or a Server or Dialer that has loops of its own.

type loop = eddy.LoopStats

var loopTable = expo.Table[loop]{ //nolint:gochecknoglobals // a table, never written
	expo.Level("eddy_loop_connections", "Open connections of the loop.", func(s *loop) int64 { return s.Active }),
	expo.Count("eddy_loop_iterations_total", "Turns of the loop, one per wait.", func(s *loop) uint64 { return s.Iterations }),
	expo.Count("eddy_loop_events_total", "Readiness events (selected keys).", func(s *loop) uint64 { return s.Events }),
	expo.Count("eddy_loop_stale_events_total", "Readiness events of connections that had ended.", func(s *loop) uint64 { return s.StaleEvents }),
	expo.Count("eddy_loop_poll_errors_total", "Waits that failed.", func(s *loop) uint64 { return s.PollErrors }),
	expo.Count("eddy_loop_premature_waits_total", "Waits that returned early for no reason.", func(s *loop) uint64 { return s.Premature }),
	expo.Count("eddy_loop_rebuilds_total", "Times the poller was replaced.", func(s *loop) uint64 { return s.Rebuilds }),
	expo.Count("eddy_loop_repolls_total", "Times the poller was asked twice in an iteration, after many closes.", func(s *loop) uint64 { return s.Repolls }),
	expo.Count("eddy_loop_tasks_total", "Tasks run.", func(s *loop) uint64 { return s.Tasks }),
	expo.Level("eddy_loop_tasks_queued", "Tasks in the loop's queue.", func(s *loop) int { return s.TaskQueueDepth }),
	expo.Level("eddy_loop_tasks_limit", "Bound of the loop's task queue.", func(s *loop) int { return s.TaskQueueLimit }),
	expo.Count("eddy_loop_tail_callbacks_total", "Functions of Loop.Tail that were run.", func(s *loop) uint64 { return s.TailCallbacks }),
	expo.Count("eddy_loop_timers_total", "Runs of timers.", func(s *loop) uint64 { return s.Timers }),
	expo.Level("eddy_loop_deadlines", "Connections with a deadline in the loop's wheel.", func(s *loop) int64 { return s.Deadlines }),
	expo.Count("eddy_loop_messages_total", "Inbound messages dispatched to pipelines.", func(s *loop) uint64 { return s.Messages }),
	expo.Count("eddy_loop_unhandled_messages_total", "Messages that passed the tail of a pipeline.", func(s *loop) uint64 { return s.Unhandled }),
	expo.Count("eddy_loop_hops_total", "Events handed to executors.", func(s *loop) uint64 { return s.Hops }),
	expo.Count("eddy_loop_hops_rejected_total", "Of those, refused by the executor.", func(s *loop) uint64 { return s.HopRejects }),
	expo.Count("eddy_loop_hops_delayed_total", "Of those, messages kept until the executor had room.", func(s *loop) uint64 { return s.HopWaits }),
	expo.Count("eddy_loop_received_bytes_total", "Bytes read from peers.", func(s *loop) uint64 { return s.BytesIn }),
	expo.Count("eddy_loop_spliced_bytes_total", "Of those, bytes that the kernel has moved to another connection.", func(s *loop) uint64 { return s.BytesSpliced }),
	expo.Count("eddy_loop_sent_bytes_total", "Bytes written to peers.", func(s *loop) uint64 { return s.BytesOut }),
	expo.Count("eddy_loop_writes_total", "Write calls to the system.", func(s *loop) uint64 { return s.WriteCalls }),
	expo.Count("eddy_loop_write_errors_total", "Writes that failed.", func(s *loop) uint64 { return s.WriteErrors }),
	expo.Level("eddy_loop_write_interest_connections", "Connections that wait for writability.", func(s *loop) int64 { return s.WriteInterest }),
	expo.Level("eddy_loop_outbound_queued_bytes", "Bytes queued for peers.", func(s *loop) int64 { return s.OutboundBytes }),
	expo.Level("eddy_loop_inbound_held_bytes", "Bytes received and not decoded yet, or kept by handlers.", func(s *loop) int64 { return s.InboundBytes }),
	expo.Count("eddy_loop_backpressure_pauses_total", "Times an outbound queue reached its high watermark.", func(s *loop) uint64 { return s.OutboundPauses }),
	expo.Count("eddy_loop_opened_total", "Connections taken over.", func(s *loop) uint64 { return s.Opened }),
	expo.Count("eddy_loop_refused_total", "Hand-overs of connections that failed.", func(s *loop) uint64 { return s.Refused }),
	expo.Count("eddy_loop_dead_reads_total", "Messages for connections that had ended.", func(s *loop) uint64 { return s.DeadReads }),
	expo.Count("eddy_loop_dead_writes_total", "Writes to connections that had ended.", func(s *loop) uint64 { return s.DeadWrites }),
	expo.Count("eddy_loop_resets_total", "Connections that the peer reset.", func(s *loop) uint64 { return s.Resets }),
	expo.Count("eddy_loop_panics_total", "Panics of handlers on the loop.", func(s *loop) uint64 { return s.Panics }),
	expo.Count("eddy_loop_faults_total", "Panics of the engine itself that were contained.", func(s *loop) uint64 { return s.Faults }),
	expo.Count("eddy_loop_phase_violations_total", "Impossible transitions between phases of connections.", func(s *loop) uint64 { return s.PhaseViolations }),
	expo.Count("eddy_loop_stalls_total", "Iterations longer than Group.StallThreshold.", func(s *loop) uint64 { return s.Stalls }),
	expo.Switch("eddy_loop_healthy", "1 while the loop's poller works; a loop that is 0 gets no new connections.", func(s *loop) bool { return s.Healthy }),
	expo.Count("eddy_loop_busy_seconds_total", "Time in which the loop did not wait.", func(s *loop) float64 { return s.Busy.Seconds() }),
	expo.Level("eddy_loop_utilisation_ratio", "Busy share of the last second, 0 to 1.", func(s *loop) float64 { return s.Utilisation }),
}.With("group", "loop")

//nolint:gochecknoglobals // never written
var (
	loopDropped = expo.Counter("eddy_loop_dropped_messages_total", "Outbound messages of classes that were dropped, by what was dropped: newest, oldest or superseded.", "group", "loop", "dropped")
	loopLag     = expo.Gauge("eddy_loop_lag_seconds", "How late the loop does what is due, over the last 30 to 60 seconds; percentile 100 is the maximum.", "group", "loop", "percentile")
)

func loopFamilies() []*expo.Family { return append(loopTable.Families(), loopDropped, loopLag) }

func putLoops(scrape *expo.Scrape, group string, loops []eddy.LoopStats) {
	for i := range loops {
		putLoop(scrape, group, &loops[i])
	}
}

func putLoop(scrape *expo.Scrape, group string, st *eddy.LoopStats) {
	loopTable.Put(scrape, st, group, st.Name)
	for dropped, n := range map[string]uint64{"newest": st.DroppedNewest, "oldest": st.DroppedOldest, "superseded": st.Superseded} {
		scrape.Put(loopDropped, float64(n), group, st.Name, dropped)
	}
	for percentile, lag := range map[string]float64{
		"50": st.Lag.P50.Seconds(), "95": st.Lag.P95.Seconds(), "99": st.Lag.P99.Seconds(), "100": st.Lag.Max.Seconds(),
	} {
		scrape.Put(loopLag, lag, group, st.Name, percentile)
	}
}
