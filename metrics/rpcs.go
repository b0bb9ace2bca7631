package metrics

import (
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

type (
	serviceStats = rpc.ServiceStats
	eventStats   = rpc.EventStats
	clientStats  = rpc.ClientStats
	balanceStats = balance.Stats
)

//nolint:gochecknoglobals // tables, never written
var (
	serviceTable = expo.Table[serviceStats]{
		expo.Count("eddy_rpc_server_calls_total", "Calls routed to the service.", func(s *serviceStats) uint64 { return s.Calls }),
		expo.Level("eddy_rpc_server_in_flight", "Calls of the service that are not answered, or still run.", func(s *serviceStats) int64 { return s.InFlight }),
		expo.Count("eddy_rpc_server_limited_total", "Calls refused because of the service's bound of calls in flight.", func(s *serviceStats) uint64 { return s.Limited }),
	}.With("rpc", "service")

	serverAnswers = expo.Counter("eddy_rpc_server_answers_total", "Responses, by status.", "side", "status")
	grpcAnswers   = expo.Counter("eddy_rpc_server_grpc_answers_total", "Calls by gRPC that were answered, by code.", "side", "code")

	eventTable = expo.Table[eventStats]{
		expo.Count("eddy_rpc_rejected_events_total", "Events for which a pool had no room.", func(s *eventStats) uint64 { return s.Rejected }),
		expo.Count("eddy_rpc_refused_connections_total", "Connections refused because the connect queue was full.", func(s *eventStats) uint64 { return s.Refused }),
		expo.Count("eddy_rpc_alarms_total", "Connects and disconnects that found more waiting than the warning allows.", func(s *eventStats) uint64 { return s.Alarms }),
		expo.Level("eddy_rpc_connect_queue", "Connects that wait.", func(s *eventStats) int { return s.Waiting }),
		expo.Count("eddy_rpc_listener_panics_total", "Panics of the Listener.", func(s *eventStats) uint64 { return s.Panics }),
	}.With("side")
	eventsTold = expo.Counter("eddy_rpc_events_total", "What the Listener was told: connected, disconnected, sent, received, late (a response that nobody waited for) and caught.", "side", "event")

	clientTable = expo.Table[clientStats]{
		expo.Level("eddy_rpc_client_connections", "Connections that take calls.", func(s *clientStats) int { return s.Connections }),
		expo.Level("eddy_rpc_client_addresses", "Addresses that the resolver has named.", func(s *clientStats) int { return s.Addresses }),
		expo.Level("eddy_rpc_client_in_flight", "Calls that have not ended, callbacks included.", func(s *clientStats) int { return s.Active }),
		expo.Level("eddy_rpc_client_waiting", "Of those, calls that wait for a connection or for room on one.", func(s *clientStats) int { return s.Waiting }),
		expo.Count("eddy_rpc_client_calls_total", "Calls begun, one-way ones included.", func(s *clientStats) uint64 { return s.Calls }),
		expo.Count("eddy_rpc_client_late_responses_total", "Responses that nobody waited for any more.", func(s *clientStats) uint64 { return s.Late }),
		expo.Count("eddy_rpc_client_failovers_total", "Attempts to make a call elsewhere.", func(s *clientStats) uint64 { return s.Failovers }),
		expo.Count("eddy_rpc_client_one_ways_total", "One-way requests that were given to the system.", func(s *clientStats) uint64 { return s.OneWays }),
		expo.Count("eddy_rpc_client_one_ways_dropped_total", "One-way requests that were not.", func(s *clientStats) uint64 { return s.OneWayDropped }),
		expo.Count("eddy_rpc_client_dials_total", "Attempts to connect.", func(s *clientStats) uint64 { return s.Dials }),
		expo.Count("eddy_rpc_client_dials_failed_total", "Attempts that failed.", func(s *clientStats) uint64 { return s.DialFailures }),
		expo.Count("eddy_rpc_client_connections_lost_total", "Connections that ended while they were wanted.", func(s *clientStats) uint64 { return s.Lost }),
		expo.Count("eddy_rpc_client_goaways_total", "Connections whose servers said GOAWAY.", func(s *clientStats) uint64 { return s.GoAways }),
		expo.Count("eddy_rpc_client_pings_total", "Pings sent.", func(s *clientStats) uint64 { return s.Pings }),
		expo.Count("eddy_rpc_client_parked_total", "Responses that waited for room in the callback pool.", func(s *clientStats) uint64 { return s.Parked }),
		expo.Count("eddy_rpc_client_pool_full_total", "Responses that a full dedicated pool left to their callers.", func(s *clientStats) uint64 { return s.PoolFull }),
		expo.Count("eddy_rpc_client_callback_panics_total", "Panics of callbacks.", func(s *clientStats) uint64 { return s.CallbackPanics }),
	}.With("client")
	balanceTable = expo.Table[balanceStats]{
		expo.Level("eddy_balance_instances", "Instances that are known.", func(s *balanceStats) int { return s.Instances }),
		expo.Level("eddy_balance_usable_instances", "Of those, the ones that are picked: connected, healthy and not ejected.", func(s *balanceStats) int { return s.Usable }),
		expo.Level("eddy_balance_ejected_instances", "Instances that are ejected because they failed.", func(s *balanceStats) int { return s.Ejected }),
		expo.Count("eddy_balance_ejections_total", "Instances ejected because they failed.", func(s *balanceStats) uint64 { return s.Ejections }),
		expo.Count("eddy_balance_ejections_spared_total", "Times that an instance was not ejected because too many were.", func(s *balanceStats) uint64 { return s.Spared }),
		expo.Count("eddy_balance_spilled_total", "Picks outside of the own zone.", func(s *balanceStats) uint64 { return s.Spilled }),
		expo.Count("eddy_balance_fallbacks_total", "Picks of an ejected instance, because none was usable.", func(s *balanceStats) uint64 { return s.Fallbacks }),
		expo.Count("eddy_balance_retries_total", "Attempts after one that has failed.", func(s *balanceStats) uint64 { return s.Retries }),
		expo.Count("eddy_balance_hedges_total", "Attempts beside one that is late.", func(s *balanceStats) uint64 { return s.Hedges }),
		expo.Count("eddy_balance_hedges_won_total", "Of those, the ones that have answered first.", func(s *balanceStats) uint64 { return s.HedgesWon }),
		expo.Count("eddy_balance_over_budget_total", "Attempts that the budget did not allow.", func(s *balanceStats) uint64 { return s.OverBudget }),
		expo.Count("eddy_balance_broken_calls_total", "Calls that the open breaker of their service has ended.", func(s *balanceStats) uint64 { return s.BrokenCalls }),
		expo.Count("eddy_balance_resolves_total", "Answers of the resolver that were applied.", func(s *balanceStats) uint64 { return s.Resolves }),
	}.With("client")
	resolverFallbacks = expo.Counter("eddy_balance_resolver_fallbacks_total", "Answers of the resolver that were not applied, by cause: error, empty, refused (too many, or one that does not parse) and held (replaced within a second).", "client", "cause")

	clientFailed = expo.Counter("eddy_rpc_client_failed_total", "Calls that the client itself ended, by cause: expired, cancelled (by the caller) and full (a bound of the client).", "client", "cause")
)

func rpcFamilies() []*expo.Family {
	all := append(append(serviceTable.Families(), serverAnswers, grpcAnswers), eventTable.Families()...)
	all = append(append(all, eventsTold), clientTable.Families()...)
	all = append(append(all, clientFailed), balanceTable.Families()...)
	return append(all, resolverFallbacks)
}

// RPCServer returns a Source of the numbers of an rpc.Server and its services. Its ports have the metrics of Server and
// Responder under the names NAME/PORT, and its pools those of Pool under NAME/POOL. Register the loops of a Group that ports
// share with Group.
func RPCServer[W interface {
	comparable
	Stats() rpc.ServerStats
}](name string, s W) Source {
	return source("RPC server", name, s, func(m *memory, scrape *expo.Scrape, st *rpc.ServerStats) {
		for port, p := range st.Ports {
			side := name + "/" + port
			putServer(m, scrape, side, &p.Engine)
			putResponder(scrape, side, &p.Requests)
			putEvents(scrape, side, &p.Events)
			for status, n := range p.Answers {
				scrape.Put(serverAnswers, float64(n), side, status.String())
			}
			for code, n := range p.GRPC {
				scrape.Put(grpcAnswers, float64(n), side, code.String())
			}
		}
		for key, service := range st.Services {
			serviceTable.Put(scrape, &service, name, key.String())
		}
		for pool, p := range st.Pools {
			poolTable.Put(scrape, &p, name+"/"+pool)
		}
	})
}

// RPCClient returns a Source of the numbers of an rpc.Client. A scrape takes the client's lock for a moment.
func RPCClient[W interface {
	comparable
	Stats() rpc.ClientStats
}](name string, cl W) Source {
	return source("RPC client", name, cl, func(_ *memory, scrape *expo.Scrape, st *clientStats) {
		clientTable.Put(scrape, st, name)
		scrape.Put(clientFailed, float64(st.Expired), name, "expired")
		scrape.Put(clientFailed, float64(st.Canceled), name, "cancelled")
		scrape.Put(clientFailed, float64(st.Full), name, "full")
		putEvents(scrape, name, &st.Events)
		putBalance(scrape, name, &st.Balance)
	})
}

// Balance returns a Source of the numbers of the servers and attempts of an rpc.GRPCClient, or of a Transport of package httpbalance.
func Balance[W interface {
	comparable
	Stats() balance.Stats
}](name string, w W) Source {
	return source("balance", name, w, func(_ *memory, scrape *expo.Scrape, st *balanceStats) { putBalance(scrape, name, st) })
}

func putBalance(scrape *expo.Scrape, client string, st *balanceStats) {
	balanceTable.Put(scrape, st, client)
	scrape.Put(resolverFallbacks, float64(st.ResolveFailures), client, "error")
	scrape.Put(resolverFallbacks, float64(st.ResolveEmpty), client, "empty")
	scrape.Put(resolverFallbacks, float64(st.ResolveRefused), client, "refused")
	scrape.Put(resolverFallbacks, float64(st.ResolveHeld), client, "held")
}

func putEvents(scrape *expo.Scrape, side string, st *eventStats) {
	eventTable.Put(scrape, st, side)
	for event, n := range map[string]uint64{
		"connected": st.Connected, "disconnected": st.Disconnected, "sent": st.Sent, "received": st.Received, "late": st.Late, "caught": st.Caught,
	} {
		scrape.Put(eventsTold, float64(n), side, event)
	}
}

// families returns all metrics of this package.
func families() []*expo.Family {
	var all []*expo.Family
	for _, of := range []func() []*expo.Family{
		serverFamilies, dialerFamilies, loopFamilies, poolFamilies, ringFamilies, protocolFamilies, websocketFamilies, rpcFamilies, traceFamilies, overloadFamilies,
	} {
		all = append(all, of()...)
	}
	return all
}
