package metrics

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

// TestAnswersByStatus: each port has a series for each status.
func TestAnswersByStatus(t *testing.T) {
	s := scrape(t, collecting(t, RPCServer("api", &told[rpc.ServerStats]{rpc.ServerStats{Ports: map[string]rpc.PortStats{
		"in":  {Answers: map[frame.Status]uint64{frame.StatusOK: 7, frame.StatusBusy: 3, frame.StatusCanceled: 0}, GRPC: map[rpc.Code]uint64{rpc.CodeOK: 5, rpc.CodeNotFound: 2}},
		"out": {Answers: map[frame.Status]uint64{frame.StatusProtocolError: 1}},
	}}})))
	s.want(t, samples{
		`eddy_rpc_server_answers_total{side="api/in",status="OK"}`:              7,
		`eddy_rpc_server_answers_total{side="api/in",status="BUSY"}`:            3,
		`eddy_rpc_server_answers_total{side="api/in",status="CANCELLED"}`:       0,
		`eddy_rpc_server_answers_total{side="api/out",status="PROTOCOL_ERROR"}`: 1,
		`eddy_rpc_server_grpc_answers_total{code="OK",side="api/in"}`:           5,
		`eddy_rpc_server_grpc_answers_total{code="NOT_FOUND",side="api/in"}`:    2,
	})
	if n := s.starts("eddy_rpc_server_answers_total"); n != 4 {
		t.Errorf("%d series, want 4", n)
	}
}

// TestRPCServerNumbers: each service has its own numbers, each pool those of its kind under the server's name.
func TestRPCServerNumbers(t *testing.T) {
	stats := rpc.ServerStats{Services: map[rpc.Key]rpc.ServiceStats{{Interface: "a"}: {Calls: 1, InFlight: 2, Limited: 3}, {Interface: "b", Version: "2"}: {}}}
	tells(t, "rpc", RPCServer("x", &told[rpc.ServerStats]{stats}), samples{
		`eddy_rpc_server_calls_total{service="/a:"}`: 1, `eddy_rpc_server_in_flight{service="/a:"}`: 2, `eddy_rpc_server_limited_total{service="/a:"}`: 3,
		`eddy_rpc_server_calls_total{service="/b:2"}`: 0, `eddy_rpc_server_in_flight{service="/b:2"}`: 0, `eddy_rpc_server_limited_total{service="/b:2"}`: 0,
	})
	pools := map[string]executor.Stats{"main": {Workers: 5, Queued: 6}}
	scrape(t, collecting(t, RPCServer("api", &told[rpc.ServerStats]{rpc.ServerStats{Pools: pools}}))).want(t, samples{
		`eddy_pool_workers{pool="api/main"}`: 5, `eddy_pool_queued{pool="api/main"}`: 6,
	})
}

// TestRPCEventNumbers: what a Listener was told is exposed by event, what could not be told under its own name.
func TestRPCEventNumbers(t *testing.T) {
	tells(t, "side", putting(rpc.EventStats{
		Connected: 1, Disconnected: 2, Sent: 3, Received: 4, Caught: 5, Late: 6, Rejected: 7, Refused: 8, Alarms: 9, Waiting: 10, Panics: 11,
	}, putEvents), samples{
		`eddy_rpc_events_total{event="connected"}`: 1, `eddy_rpc_events_total{event="disconnected"}`: 2, `eddy_rpc_events_total{event="sent"}`: 3,
		`eddy_rpc_events_total{event="received"}`: 4, `eddy_rpc_events_total{event="caught"}`: 5, `eddy_rpc_events_total{event="late"}`: 6,
		"eddy_rpc_rejected_events_total": 7, "eddy_rpc_refused_connections_total": 8, "eddy_rpc_alarms_total": 9, "eddy_rpc_connect_queue": 10,
		"eddy_rpc_listener_panics_total": 11,
	})
}

// TestBalanceNumbers: all that is counted of servers and attempts is exposed under its own name.
func TestBalanceNumbers(t *testing.T) {
	tells(t, "client", putting(balance.Stats{
		Instances: 1, Usable: 2, Ejected: 3, Ejections: 4, Spared: 5, Spilled: 6, Fallbacks: 7, Retries: 8, Hedges: 9, HedgesWon: 10, OverBudget: 11, BrokenCalls: 12,
		Resolves: 13, ResolveFailures: 14, ResolveEmpty: 15, ResolveRefused: 16, ResolveHeld: 17,
	}, putBalance), samples{
		"eddy_balance_instances": 1, "eddy_balance_usable_instances": 2, "eddy_balance_ejected_instances": 3, "eddy_balance_ejections_total": 4,
		"eddy_balance_ejections_spared_total": 5, "eddy_balance_spilled_total": 6, "eddy_balance_fallbacks_total": 7, "eddy_balance_retries_total": 8,
		"eddy_balance_hedges_total": 9, "eddy_balance_hedges_won_total": 10, "eddy_balance_over_budget_total": 11, "eddy_balance_broken_calls_total": 12,
		"eddy_balance_resolves_total": 13, `eddy_balance_resolver_fallbacks_total{cause="error"}`: 14, `eddy_balance_resolver_fallbacks_total{cause="empty"}`: 15,
		`eddy_balance_resolver_fallbacks_total{cause="refused"}`: 16, `eddy_balance_resolver_fallbacks_total{cause="held"}`: 17,
	})
	got := scrape(t, collecting(t, Balance("x", &told[balance.Stats]{balance.Stats{Usable: 5}})))
	got.want(t, samples{`eddy_balance_usable_instances{client="x"}`: 5})
}

// TestRPCClientNumbers: all that a client counts is exposed under its own name, the calls that it ended by cause.
func TestRPCClientNumbers(t *testing.T) {
	got := scrape(t, collecting(t, RPCClient("x", &told[rpc.ClientStats]{rpc.ClientStats{
		Connections: 1, Addresses: 2, Active: 3, Waiting: 4, Calls: 5, Late: 6, Failovers: 7, Expired: 8, Canceled: 9, Full: 10, OneWays: 11, OneWayDropped: 12,
		Dials: 13, DialFailures: 14, Lost: 15, GoAways: 16, Pings: 17, Balance: balance.Stats{Instances: 18}, Parked: 19, CallbackPanics: 20, PoolFull: 21,
		Events: rpc.EventStats{Sent: 22},
	}})))
	want := samples{
		`eddy_balance_instances{client="x"}`:                         18,
		`eddy_rpc_events_total{event="sent",side="x"}`:               22,
		`eddy_rpc_client_failed_total{cause="expired",client="x"}`:   8,
		`eddy_rpc_client_failed_total{cause="cancelled",client="x"}`: 9,
		`eddy_rpc_client_failed_total{cause="full",client="x"}`:      10,
	}
	numbers := map[string]float64{
		"connections": 1, "addresses": 2, "in_flight": 3, "waiting": 4, "calls_total": 5, "late_responses_total": 6, "failovers_total": 7, "one_ways_total": 11,
		"one_ways_dropped_total": 12, "dials_total": 13, "dials_failed_total": 14, "connections_lost_total": 15, "goaways_total": 16, "pings_total": 17,
		"parked_total": 19, "callback_panics_total": 20, "pool_full_total": 21,
	}
	for name, v := range numbers {
		want["eddy_rpc_client_"+name+`{client="x"}`] = v
	}
	got.want(t, want)
	for series := range got {
		if _, ok := want[series]; !ok && strings.HasPrefix(series, "eddy_rpc_client_") {
			t.Errorf("nothing was expected of %s", series)
		}
	}
}
