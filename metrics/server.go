package metrics

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// kindLoops is the one kind of all sources that may have loops. Their names must differ, because the name is the label
// "group" of the loops.
const kindLoops = "server, dialer or group"

var serverTable = expo.Table[eddy.Stats]{ //nolint:gochecknoglobals // a table, never written
	expo.Level("eddy_server_uptime_seconds", "Time since Listen, until the end.", func(s *eddy.Stats) float64 { return s.Uptime.Seconds() }),
	expo.Level("eddy_server_connections", "Connections admitted and not yet closed.", func(s *eddy.Stats) int64 { return s.Active }),
	expo.Level("eddy_server_connections_limit", "Server.MaxConns; 0 is no limit.", func(s *eddy.Stats) int { return s.MaxConns }),
	expo.Count("eddy_server_accepted_total", "Connections taken from the listener, refused ones included.", func(s *eddy.Stats) uint64 { return s.Accepted }),
	expo.Count("eddy_server_accept_pauses_total", "Times that accepting stopped, for want of room or of descriptors.", func(s *eddy.Stats) uint64 { return s.AcceptPauses }),
	expo.Count("eddy_server_accept_errors_total", "Accepts that failed.", func(s *eddy.Stats) uint64 { return s.AcceptErrors }),
	expo.Count("eddy_server_shed_total", "Connections accepted and closed at once because descriptors had run out.", func(s *eddy.Stats) uint64 { return s.Shed }),
	expo.Level("eddy_server_placing", "Of the connections, those that wait for the first bytes that choose their loop.", func(s *eddy.Stats) int64 { return s.Placing }),
	expo.Count("eddy_server_placed_total", "Connections whose loop was chosen by their first bytes.", func(s *eddy.Stats) uint64 { return s.Placed }),
	expo.Count("eddy_server_unplaced_total", "Connections whose first bytes did not choose their loop, or did not come in time.", func(s *eddy.Stats) uint64 { return s.Unplaced }),
	expo.Count("eddy_server_ended_placing_total", "Connections that ended while they waited for the first bytes that choose their loop.", func(s *eddy.Stats) uint64 { return s.EndedPlacing }),
	expo.Count("eddy_server_ended_idle_total", "Idle connections that were ended because of an overload.", func(s *eddy.Stats) uint64 { return s.EndedIdle }),
	expo.Count("eddy_server_ended_keep_alive_total", "Connections that were asked to end after what was in flight, because of an overload.", func(s *eddy.Stats) uint64 { return s.EndedKeepAlive }),
	expo.Level("eddy_server_memory_outbound_bytes", "Bytes queued for peers.", func(s *eddy.Stats) int64 { return s.Memory.Outbound }),
	expo.Level("eddy_server_memory_inbound_bytes", "Bytes received and not decoded yet, or kept by handlers.", func(s *eddy.Stats) int64 { return s.Memory.Inbound }),
	expo.Level("eddy_server_memory_budget_bytes", "Bytes that connections may hold together: Server.MemoryBudget or its default; 0 is no limit.", func(s *eddy.Stats) int64 { return s.Memory.Budget }),
	expo.Switch("eddy_server_memory_pressure", "1 while reads pause because of the memory budget.", func(s *eddy.Stats) bool { return s.Memory.Pressure }),
	expo.Count("eddy_server_memory_pressures_total", "Times that the memory budget was passed.", func(s *eddy.Stats) uint64 { return s.Memory.Pressures }),
	expo.Count("eddy_server_memory_closed_total", "Connections closed to get below the memory budget, the slowest first.", func(s *eddy.Stats) uint64 { return s.Memory.Closed }),
	expo.Count("eddy_server_memory_refused_writes_total", "Writes refused while far above the memory budget.", func(s *eddy.Stats) uint64 { return s.Memory.Refused }),
	expo.Count("eddy_server_pool_panics_total", "Panics of handlers on pools.", func(s *eddy.Stats) uint64 { return s.ExecutorPanics }),
	expo.Level("eddy_server_live_buffers", "Counted buffers of the server's group that are not released yet.", func(s *eddy.Stats) int { return s.LiveBuffers }),
	expo.Count("eddy_server_leaked_buffers_total", "Watched buffers of the server's group that were dropped without their release.", func(s *eddy.Stats) uint64 { return s.Leaks }),
}.With("server")

//nolint:gochecknoglobals // never written
var (
	serverRejected = expo.Counter("eddy_server_rejected_total", "Connections refused, by the limit that refused them.", "server", "cause")
	serverClosed   = expo.Counter("eddy_server_closed_total", "Connections that ended, by reason; refused ones are admission_rejected.", "server", "reason")
	tenantClosed   = expo.Counter("eddy_server_tenant_closed_total", "The same by tenant, of connections that have one.", "server", "tenant", "reason")
	networkClosed  = expo.Counter("eddy_server_network_closed_total", "The same by the peers' networks, /24 and /48.", "server", "network", "reason")

	dialerTable = expo.Table[eddy.DialerStats]{
		expo.Level("eddy_dialer_connections", "Open connections and attempts.", func(s *eddy.DialerStats) int64 { return s.Active }),
		expo.Count("eddy_dialer_dialed_total", "Connections made.", func(s *eddy.DialerStats) uint64 { return s.Dialed }),
		expo.Count("eddy_dialer_failed_total", "Attempts that failed, were cancelled or timed out.", func(s *eddy.DialerStats) uint64 { return s.Failed }),
	}.With("dialer")
	dialerClosed = expo.Counter("eddy_dialer_closed_total", "Connections that ended, by reason.", "dialer", "reason")
)

func serverFamilies() []*expo.Family {
	return append(serverTable.Families(), serverRejected, serverClosed, tenantClosed, networkClosed)
}

func dialerFamilies() []*expo.Family { return append(dialerTable.Families(), dialerClosed) }

// Server returns a Source of the numbers of an *eddy.Server, or of a type that wraps one, and of the server's own loops.
// Register the loops of a shared Group once, with Group.
func Server[W interface {
	comparable
	Stats() eddy.Stats
}](name string, srv W) Source {
	return source(kindLoops, name, srv, func(m *memory, scrape *expo.Scrape, st *eddy.Stats) { putServer(m, scrape, name, st) })
}

func putServer(m *memory, scrape *expo.Scrape, name string, st *eddy.Stats) {
	serverTable.Put(scrape, st, name)
	for _, cause := range eddy.RefuseCauses() {
		scrape.Put(serverRejected, float64(st.Refused[cause]), name, cause.String())
	}
	putClosed(scrape, serverClosed, name, st.Closed)
	m.tenants.put(scrape, tenantClosed, name, st.Tenants)
	m.networks.put(scrape, networkClosed, name, st.Networks)
	if !st.SharedLoops {
		putLoops(scrape, name, st.Loops)
	}
	if st.Boss.Name != "" && !st.SharedBoss {
		putLoop(scrape, name, &st.Boss)
	}
}

// putClosed emits every close reason, also those with no close yet, because a counter that appears later loses its first
// increase.
func putClosed(scrape *expo.Scrape, f *expo.Family, name string, closed map[eddy.CloseReason]uint64) {
	for _, reason := range eddy.CloseReasons() {
		scrape.Put(f, float64(closed[reason]), name, reason.String())
	}
}

// Dialer returns a Source of the numbers of a Dialer, and of its loops if they are its own.
func Dialer(name string, d *eddy.Dialer) Source {
	return source(kindLoops, name, d, func(_ *memory, scrape *expo.Scrape, st *eddy.DialerStats) {
		dialerTable.Put(scrape, st, name)
		putClosed(scrape, dialerClosed, name, st.Closed)
		if !st.SharedLoops {
			putLoops(scrape, name, st.Loops)
		}
	})
}

// Group returns a Source of the numbers of the loops of a Group that servers and dialers share.
func Group(name string, g *eddy.Group) Source {
	return source(kindLoops, name, g, func(_ *memory, scrape *expo.Scrape, st *[]eddy.LoopStats) { putLoops(scrape, name, *st) })
}
