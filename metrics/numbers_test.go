package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/ring"
)

// told is a part of a program that says the numbers it was given.
type told[S any] struct{ st S }

func (o *told[S]) Stats() S { return o.st }

// putting makes a Source named x of numbers, read as the constructor of their kind reads them.
func putting[S any](st S, put func(*expo.Scrape, string, *S)) Source {
	return source("part", "x", &told[S]{st}, func(_ *memory, scrape *expo.Scrape, st *S) { put(scrape, "x", st) })
}

// tells fails unless a source named x has these series and no others. The label with its name is left out of them.
func tells(t *testing.T, label string, s Source, want samples) {
	t.Helper()
	label += `="x"`
	short, got := strings.NewReplacer("{"+label+"}", "", label+",", "", ","+label, ""), samples{}
	for series, v := range scrape(t, collecting(t, s)) {
		got[short.Replace(series)] = v
	}
	got.want(t, want)
	for series, v := range got {
		if _, ok := want[series]; !ok {
			t.Errorf("%s is %v, and nothing was expected of it", series, v)
		}
	}
}

// TestServerNumbers: what servers and dialers count is exposed under its own name, refusals by cause and closes by reason.
func TestServerNumbers(t *testing.T) {
	st := eddy.Stats{
		Uptime: 1500 * time.Millisecond, Active: 2, MaxConns: 3, Accepted: 4, AcceptPauses: 5, AcceptErrors: 6, Shed: 7, ExecutorPanics: 8, LiveBuffers: 9, Leaks: 10, EndedIdle: 20, EndedKeepAlive: 21,
		Placing: 22, Placed: 23, Unplaced: 24, EndedPlacing: 25,
		Memory:  eddy.MemoryStats{Budget: 11, Outbound: 12, Inbound: 13, Pressure: true, Pressures: 14, Closed: 15, Refused: 16},
		Refused: map[eddy.RefuseCause]uint64{}, Closed: map[eddy.CloseReason]uint64{}, SharedLoops: true,
		Tenants:  map[string]map[eddy.CloseReason]uint64{"acme": {eddy.CloseNormal: 17, eddy.CloseWriteTimeout: 18}},
		Networks: map[string]map[eddy.CloseReason]uint64{"10.0.0.0/24": {eddy.CloseNormal: 19}},
	}
	want := samples{
		"eddy_server_uptime_seconds": 1.5, "eddy_server_connections": 2, "eddy_server_connections_limit": 3, "eddy_server_accepted_total": 4,
		"eddy_server_accept_pauses_total": 5, "eddy_server_accept_errors_total": 6, "eddy_server_shed_total": 7, "eddy_server_pool_panics_total": 8,
		"eddy_server_placing": 22, "eddy_server_placed_total": 23, "eddy_server_unplaced_total": 24, "eddy_server_ended_placing_total": 25,
		"eddy_server_ended_idle_total": 20, "eddy_server_ended_keep_alive_total": 21, "eddy_server_live_buffers": 9, "eddy_server_leaked_buffers_total": 10, "eddy_server_memory_budget_bytes": 11,
		"eddy_server_memory_outbound_bytes": 12, "eddy_server_memory_inbound_bytes": 13, "eddy_server_memory_pressure": 1,
		"eddy_server_memory_pressures_total": 14, "eddy_server_memory_closed_total": 15, "eddy_server_memory_refused_writes_total": 16,
		`eddy_server_tenant_closed_total{reason="normal",tenant="acme"}`: 17, `eddy_server_tenant_closed_total{reason="write_timeout",tenant="acme"}`: 18,
		`eddy_server_network_closed_total{network="10.0.0.0/24",reason="normal"}`: 19,
	}
	for i, cause := range eddy.RefuseCauses() {
		st.Refused[cause] = uint64(100 + i)
		want[`eddy_server_rejected_total{cause="`+cause.String()+`"}`] = float64(100 + i)
	}
	for i, reason := range eddy.CloseReasons() {
		st.Closed[reason] = uint64(200 + i)
		want[`eddy_server_closed_total{reason="`+reason.String()+`"}`] = float64(200 + i)
	}
	quotaExceeded := eddy.RegisterCloseReason("quota_exceeded")
	st.Closed[quotaExceeded] = 300
	want[`eddy_server_closed_total{reason="quota_exceeded"}`] = 300
	tells(t, "server", Server("x", &told[eddy.Stats]{st}), want)
	tells(t, "dialer", table("dialer", "x", &told[eddy.DialerStats]{eddy.DialerStats{Active: 1, Dialed: 2, Failed: 3}}, dialerTable), samples{
		"eddy_dialer_connections": 1, "eddy_dialer_dialed_total": 2, "eddy_dialer_failed_total": 3,
	})
}

// TestLoopNumbers: what R196 to R202 ask for, and all else that a loop counts, is exposed with the loop's own numbers.
func TestLoopNumbers(t *testing.T) {
	loops := []eddy.LoopStats{{
		Name: "a", Active: 1, Iterations: 2, Events: 3, StaleEvents: 4, PollErrors: 5, Premature: 6, Rebuilds: 7, Repolls: 8, Tasks: 9, TaskQueueDepth: 10,
		TaskQueueLimit: 11, TailCallbacks: 12, Timers: 13, Deadlines: 14, Messages: 15, Unhandled: 16, Hops: 17, HopRejects: 18, HopWaits: 19, BytesIn: 20,
		BytesOut: 21, WriteCalls: 22, WriteErrors: 23, WriteInterest: 24, OutboundBytes: 25, InboundBytes: 26, OutboundPauses: 27, Opened: 28, Refused: 29,
		DeadReads: 30, DeadWrites: 31, Resets: 32, Panics: 33, Faults: 34, PhaseViolations: 35, Stalls: 36, Healthy: true, Busy: 37500 * time.Millisecond,
		Utilisation: 0.25, DroppedNewest: 38, DroppedOldest: 39, Superseded: 40, BytesSpliced: 41,
		Lag: eddy.Lag{Ticks: 9, P50: time.Millisecond, P95: 2 * time.Millisecond, P99: 3 * time.Millisecond, Max: 4 * time.Millisecond},
	}, {Name: "b"}}
	numbers := map[string]float64{
		"connections": 1, "iterations_total": 2, "events_total": 3, "stale_events_total": 4, "poll_errors_total": 5, "premature_waits_total": 6,
		"rebuilds_total": 7, "repolls_total": 8, "tasks_total": 9, "tasks_queued": 10, "tasks_limit": 11, "tail_callbacks_total": 12, "timers_total": 13,
		"deadlines": 14, "messages_total": 15, "unhandled_messages_total": 16, "hops_total": 17, "hops_rejected_total": 18, "hops_delayed_total": 19,
		"received_bytes_total": 20, "sent_bytes_total": 21, "writes_total": 22, "write_errors_total": 23, "write_interest_connections": 24,
		"outbound_queued_bytes": 25, "inbound_held_bytes": 26, "backpressure_pauses_total": 27, "opened_total": 28, "refused_total": 29,
		"dead_reads_total": 30, "dead_writes_total": 31, "resets_total": 32, "panics_total": 33, "faults_total": 34, "phase_violations_total": 35,
		"stalls_total": 36, "healthy": 1, "busy_seconds_total": 37.5, "utilisation_ratio": 0.25, "spliced_bytes_total": 41,
	}
	want := samples{}
	add := func(name, before, after string, v float64) { // the labels beside the loop's, in the order of their names
		want["eddy_loop_"+name+`{`+before+`loop="a"`+after+`}`], want["eddy_loop_"+name+`{`+before+`loop="b"`+after+`}`] = v, 0
	}
	for name, v := range numbers {
		add(name, "", "", v)
	}
	for dropped, v := range map[string]float64{"newest": 38, "oldest": 39, "superseded": 40} {
		add("dropped_messages_total", `dropped="`+dropped+`",`, "", v)
	}
	for percentile, v := range map[string]float64{"50": 0.001, "95": 0.002, "99": 0.003, "100": 0.004} {
		add("lag_seconds", "", `,percentile="`+percentile+`"`, v)
	}
	tells(t, "group", putting(loops, func(scrape *expo.Scrape, name string, st *[]eddy.LoopStats) { putLoops(scrape, name, *st) }), want)
}

// TestPoolNumbers: what pools, keyed executors and lanes count is exposed under its own name and limit.
func TestPoolNumbers(t *testing.T) {
	tells(t, "pool", Pool("x", &told[executor.Stats]{executor.Stats{
		Workers: 1, MaxWorkers: 2, Running: 3, Queued: 4, MaxQueue: 5, Submitted: 6, Completed: 7, Rejected: 8, Exhausted: 9, CallerRan: 10,
		Discarded: 11, Waited: 12, Panics: 13, Parked: 14, MaxParked: 15, Left: 16, Crowded: 17, Shed: 18, Wasted: 19,
	}}), samples{
		"eddy_pool_parked": 14, "eddy_pool_parked_limit": 15, "eddy_pool_left_total": 16, "eddy_pool_crowded_total": 17, "eddy_pool_shed_total": 18,
		"eddy_pool_wasted_total": 19,
		"eddy_pool_workers":      1, "eddy_pool_workers_limit": 2, "eddy_pool_running": 3, "eddy_pool_queued": 4, "eddy_pool_queue_limit": 5,
		"eddy_pool_submitted_total": 6, "eddy_pool_completed_total": 7, "eddy_pool_rejected_total": 8, "eddy_pool_exhausted_total": 9,
		"eddy_pool_caller_ran_total": 10, "eddy_pool_discarded_total": 11, "eddy_pool_waited_total": 12, "eddy_pool_panics_total": 13,
	})
	tells(t, "keyed", Keyed("x", &told[executor.KeyedStats]{executor.KeyedStats{
		Keys: 1, Waiting: 2, Limit: 3, RejectedKey: 4, RejectedTotal: 5, RejectedPool: 6,
	}}), samples{
		"eddy_keyed_keys": 1, "eddy_keyed_waiting": 2, "eddy_keyed_waiting_limit": 3,
		`eddy_keyed_rejected_total{limit="key"}`: 4, `eddy_keyed_rejected_total{limit="total"}`: 5, `eddy_keyed_rejected_total{limit="pool"}`: 6,
	})
	want := samples{}
	for name, v := range map[string]float64{
		"eddy_lane_workers": 1, "eddy_lane_queued": 2, "eddy_lane_spilled": 3, "eddy_lane_accepted_total": 4, "eddy_lane_rejected_total": 5,
		"eddy_lane_capacity": 10, "eddy_lane_done_total": 6, "eddy_lane_panics_total": 7, "eddy_lane_waited_total": 8, "eddy_lane_lost_total": 9, "eddy_lane_faulty": 0,
	} {
		want[name+`{lane="a"}`], want[name+`{lane="b"}`] = v, 0
	}
	want[`eddy_lane_faulty{lane="b"}`] = 1
	tells(t, "lanes", Lanes("x", &told[[]executor.LaneStats]{[]executor.LaneStats{
		{Name: "a", Workers: 1, Queued: 2, Capacity: 10, Spilled: 3, Accepted: 4, Rejected: 5, Done: 6, Panics: 7, Waited: 8, Lost: 9}, {Name: "b", Fault: executor.ErrRejected},
	}}), want)
}

// TestRingNumbers: how full rings and spill queues are is exposed, and what the latter did with their messages.
func TestRingNumbers(t *testing.T) {
	queue, err := ring.NewMPSC[int](8)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if !queue.Send(i) {
			t.Fatal("full")
		}
	}
	tells(t, "ring", Ring("x", queue), samples{"eddy_ring_queued": 3, "eddy_ring_capacity": 8})
	tells(t, "spill", table("spill", "x", &told[spillStats]{spillStats{
		Memory: 1, Waiting: 2, Disk: 3, Bytes: 4, Cut: 5, Accepted: 6, Spilled: 7, Rejected: 8, Faults: 9, Fault: executor.ErrRejected,
	}}, spillTable), samples{
		"eddy_spill_memory": 1, "eddy_spill_writing": 2, "eddy_spill_disk": 3, "eddy_spill_log_bytes": 4, "eddy_spill_cut_bytes": 5,
		"eddy_spill_accepted_total": 6, "eddy_spill_spilled_total": 7, "eddy_spill_rejected_total": 8, "eddy_spill_faults_total": 9, "eddy_spill_faulty": 1,
	})
}

// TestHTTPNumbers: responses are exposed by the class of their status, requests that no handler answered by the cause.
func TestHTTPNumbers(t *testing.T) {
	tells(t, "http", putting(httpStats{
		Requests: 1, Upgrades: 2, InvalidFields: 3, Busy: 4, ProtocolErrors: 5, Timeouts: 6, Responses: [...]uint64{10, 11, 12, 13, 14, 15},
	}, putHTTP), samples{
		"eddy_http_requests_total": 1, "eddy_http_upgrades_total": 2, "eddy_http_invalid_fields_total": 3,
		`eddy_http_rejected_total{cause="busy"}`: 4, `eddy_http_rejected_total{cause="malformed"}`: 5, `eddy_http_rejected_total{cause="timeout"}`: 6,
		`eddy_http_responses_total{code="1xx"}`: 11, `eddy_http_responses_total{code="2xx"}`: 12, `eddy_http_responses_total{code="3xx"}`: 13,
		`eddy_http_responses_total{code="4xx"}`: 14, `eddy_http_responses_total{code="5xx"}`: 15,
	})
	tells(t, "http", putting(http2Stats{
		Requests: 1, InvalidFields: 3, Busy: 4, ProtocolErrors: 5, Timeouts: 6, Refused: 7, Resets: 8, Floods: 9, Responses: [...]uint64{10, 11, 12, 13, 14, 15},
	}, putHTTP2), samples{
		"eddy_http_requests_total": 1, "eddy_http_upgrades_total": 0, "eddy_http_invalid_fields_total": 3,
		`eddy_http_rejected_total{cause="busy"}`: 4, `eddy_http_rejected_total{cause="malformed"}`: 5, `eddy_http_rejected_total{cause="timeout"}`: 6,
		`eddy_http_responses_total{code="1xx"}`: 11, `eddy_http_responses_total{code="2xx"}`: 12, `eddy_http_responses_total{code="3xx"}`: 13,
		`eddy_http_responses_total{code="4xx"}`: 14, `eddy_http_responses_total{code="5xx"}`: 15,
		"eddy_http2_refused_total": 7, "eddy_http2_resets_total": 8, "eddy_http2_floods_total": 9,
	})
	tells(t, "transport", table("HTTP client", "x", &told[transportStats]{transportStats{
		Open: 1, Idle: 2, Waiting: 3, Requests: 4, Reused: 5, Retried: 6,
	}}, transportTable), samples{
		"eddy_http_client_connections": 1, "eddy_http_client_idle_connections": 2, "eddy_http_client_waiting": 3, "eddy_http_client_requests_total": 4,
		"eddy_http_client_reused_total": 5, "eddy_http_client_retried_total": 6,
	})
}

// TestTLSNumbers: handshakes that did not succeed are exposed by the cause.
func TestTLSNumbers(t *testing.T) {
	tells(t, "tls", putting(tlsStats{Active: 1, Established: 2, Resumed: 3, Failed: 4, NotTLS: 5, Refused: 6, Truncated: 7}, putTLS), samples{
		"eddy_tls_handshakes": 1, "eddy_tls_established_total": 2, "eddy_tls_resumed_total": 3, "eddy_tls_truncated_total": 7,
		`eddy_tls_failed_total{cause="handshake"}`: 4, `eddy_tls_failed_total{cause="not_tls"}`: 5, `eddy_tls_failed_total{cause="refused"}`: 6,
	})
}

// TestRequestNumbers: requests of a Responder are exposed by their outcome, messages of a class by what became of them.
func TestRequestNumbers(t *testing.T) {
	tells(t, "responder", Responder("x", &told[responder.Stats]{responder.Stats{
		Failed: 1, Refused: 2, Rejected: 3, Canceled: 4, Expired: 5, Abandoned: 6, Dropped: 7,
	}}), samples{
		`eddy_requests_failed_total{outcome="failed"}`: 1, `eddy_requests_failed_total{outcome="refused"}`: 2,
		`eddy_requests_failed_total{outcome="rejected"}`: 3, `eddy_requests_failed_total{outcome="cancelled"}`: 4,
		`eddy_requests_failed_total{outcome="expired"}`: 5, `eddy_requests_failed_total{outcome="abandoned"}`: 6, "eddy_requests_dropped_total": 7,
	})
	tells(t, "class", table("message class", "x", &told[eddy.ClassStats]{eddy.ClassStats{Dropped: 1, Rejected: 2}}, classTable), samples{
		"eddy_class_dropped_total": 1, "eddy_class_rejected_total": 2,
	})
}

// TestHubNumbers: broadcasts are exposed by what became of them, compressed messages and their bytes by direction.
func TestHubNumbers(t *testing.T) {
	tells(t, "hub", table("hub", "x", &told[hubStats]{hubStats{
		Members: 1, Pending: 2, Broadcasts: 3, Refused: 4, Sent: 5, Failed: 6,
	}}, hubTable), samples{
		"eddy_websocket_hub_members": 1, "eddy_websocket_hub_pending": 2, "eddy_websocket_hub_broadcasts_total": 3,
		"eddy_websocket_hub_refused_total": 4, "eddy_websocket_hub_sent_total": 5, "eddy_websocket_hub_failed_total": 6,
	})
	tells(t, "compression", putting(compressionStats{
		Sent: 1, SentBytes: 2, SentWire: 3, Received: 4, ReceivedBytes: 5, ReceivedWire: 6, Skipped: 7, WithoutWindow: 8, Windows: 9, Waiting: 10,
	}, putCompression), samples{
		`eddy_websocket_deflate_messages_total{direction="sent"}`: 1, `eddy_websocket_deflate_plain_bytes_total{direction="sent"}`: 2,
		`eddy_websocket_deflate_wire_bytes_total{direction="sent"}`: 3, `eddy_websocket_deflate_messages_total{direction="received"}`: 4,
		`eddy_websocket_deflate_plain_bytes_total{direction="received"}`: 5, `eddy_websocket_deflate_wire_bytes_total{direction="received"}`: 6,
		"eddy_websocket_deflate_skipped_total": 7, "eddy_websocket_deflate_without_window_total": 8, "eddy_websocket_deflate_window_bytes": 9,
		"eddy_websocket_deflate_waiting": 10,
	})
}
