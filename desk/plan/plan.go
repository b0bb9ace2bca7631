package plan

import (
	"fmt"
	"math"
)

// Load is what a Desk has to carry at its busiest.
type Load struct {
	Visitors  int     `json:"visitors"` // connected at a time
	PerSecond float64 `json:"messages_per_second"`
	Agents    int     `json:"agents"` // connected at a time
	Sites     int     `json:"sites"`  // a site is in one shard
	Cores     int     `json:"cores"`  // of a server
}

// Plan is what that takes. Every shard is a Desk of its own, with a database of its own and the same share of the load.
type Plan struct {
	Load     Load    `json:"load"`
	Shards   int     `json:"shards"`
	Writer   float64 `json:"writer_limit_messages_per_second"` // of one database, whatever the number of servers
	Because  string  `json:"shards_because"`
	Each     Shard   `json:"each_shard"`
	Servers  int     `json:"servers"` // of all shards
	PerDay   float64 `json:"database_bytes_per_day"`
	PerYear  float64 `json:"database_bytes_per_year"`
	DBCores  float64 `json:"database_cores"`
	BusBytes float64 `json:"bus_bytes_per_second"`
}

// Shard is what one database, its servers and its bus have to do.
type Shard struct {
	Visitors    int     `json:"visitors"`
	Agents      int     `json:"agents"`
	PerSecond   float64 `json:"messages_per_second"`
	Servers     int     `json:"servers"` // one of which may die
	Because     string  `json:"servers_because"`
	Connections int     `json:"connections_per_server"` // when one has died
	Busy        float64 `json:"server_busy"`            // share of its cores, when one has died
	Memory      float64 `json:"server_memory_bytes"`    // of connections that say nothing, when one has died
	ServerCPU   float64 `json:"server_us_per_message"`

	DatabaseConnections int     `json:"database_connections"`
	DatabaseCores       float64 `json:"database_cores"` // so that they are as busy as is planned
	Held                float64 `json:"messages_per_commit"`
	Commits             float64 `json:"commits_per_second"`
	Syncs               float64 `json:"wal_syncs_per_second"`
	WAL                 float64 `json:"wal_bytes_per_second"`
	PerDay              float64 `json:"database_bytes_per_day"`  // at the rate of the load all day long
	PerYear             float64 `json:"database_bytes_per_year"` // the same for 365 days

	BusIn       float64 `json:"bus_messages_per_second"` // published
	BusOut      float64 `json:"bus_deliveries_per_second"`
	BusInBytes  float64 `json:"bus_in_bytes_per_second"`
	BusOutBytes float64 `json:"bus_out_bytes_per_second"`
}

// What a plan assumes.
const (
	Headroom            = 0.6     // of processors, and of the writer, in use
	ConnectionsOfServer = 50_000  // LimitNOFILE of deploy/eddy-desk.service has room for twice that
	ServersOfShard      = 64      // each of them hears what every other one commits
	DatabaseOfServer    = 20      // connections of one Desk to its database
	memoryOfServer      = 128e6   // bytes without any connection
	secondsOfDay        = 86_400. // at the rate of the load
)

// Limits of a Load.
const (
	MaxVisitors  = 1_000_000_000
	MaxPerSecond = 10_000_000
	MaxAgents    = 100_000_000
	MaxSites     = 100_000_000
	MaxCores     = 1024
)

// Check returns an error that names the limit that a load breaks, and the value.
func (l Load) Check() error {
	for _, f := range []struct {
		name              string
		value, least, top float64
	}{
		{"visitors", float64(l.Visitors), 1, MaxVisitors}, {"messages-per-second", l.PerSecond, 0.001, MaxPerSecond}, {"agents", float64(l.Agents), 1, MaxAgents},
		{"sites", float64(l.Sites), 1, MaxSites}, {"cores", float64(l.Cores), 1, MaxCores},
	} {
		if !(f.value >= f.least && f.value <= f.top) { // NaN is neither
			return fmt.Errorf("%s %v is out of range: use %v to %.0f", f.name, f.value, f.least, f.top)
		}
	}
	return nil
}

// Plan returns the smallest number of shards, and of servers in each, that carries a load with one server of each shard gone.
func (m *Model) Plan(l Load) (Plan, error) {
	if err := l.Check(); err != nil {
		return Plan{}, err
	}
	p := Plan{Load: l, Writer: m.together.rate(most)}
	least := max(int(math.Ceil(l.PerSecond/(Headroom*p.Writer))), 1)
	p.Because = "one database is enough"
	if least > 1 {
		p.Because = "one transaction at a time writes to a database"
	}
	for shards := least; ; {
		each, missing := m.shard(l, shards)
		if missing <= 1 {
			p.Shards, p.Each = shards, each
			break
		}
		p.Because = fmt.Sprintf("more than %d servers on one database are not planned", ServersOfShard)
		shards = max(shards+1, int(float64(shards)*min(missing, 1e6)*0.9))
	}
	if p.Shards > l.Sites {
		return Plan{}, fmt.Errorf("sites %d is out of range: this load takes %d shards, and a site is in one of them: use %d or more", l.Sites, p.Shards, p.Shards)
	}
	all := float64(p.Shards)
	p.Servers = p.Shards * p.Each.Servers
	p.PerDay, p.PerYear, p.DBCores, p.BusBytes = all*p.Each.PerDay, all*p.Each.PerYear, all*p.Each.DatabaseCores, all*(p.Each.BusInBytes+p.Each.BusOutBytes)
	return p, nil
}

// shard plans one of some shards. missing is how many times too large its load is, at most 1 if it can be carried.
func (m *Model) shard(l Load, shards int) (s Shard, missing float64) {
	share := func(n int) int { return (n + shards - 1) / shards }
	s = Shard{Visitors: share(l.Visitors), Agents: share(l.Agents), PerSecond: l.PerSecond / float64(shards)}
	s.Held = m.together.held(s.PerSecond)
	clients := s.Visitors + s.Agents
	least := 1 + (clients+ConnectionsOfServer-1)/ConnectionsOfServer
	s.Because = "one may die"
	if least > 2 {
		s.Because = "connections"
	}
	if least > ServersOfShard {
		return s, float64(least-1) / (ServersOfShard - 1)
	}
	missing = math.Inf(1)
	for n := least; n <= ServersOfShard; n++ {
		cpu := m.server.at(1/s.Held, n)
		busy := s.PerSecond * cpu / 1e6 / float64((n-1)*l.Cores)
		missing = min(missing, busy/Headroom)
		if busy > Headroom {
			s.Because = "processor time"
			continue
		}
		s.Servers, s.ServerCPU, s.Busy = n, cpu, busy
		m.fill(&s, clients)
		return s, 1
	}
	return s, max(missing, 1.001)
}

// fill computes what follows from the number of servers.
func (m *Model) fill(s *Shard, clients int) {
	s.Connections = (clients + s.Servers - 2) / (s.Servers - 1)
	s.Memory = memoryOfServer + float64(s.Connections)*m.measured.Idle
	s.DatabaseConnections = s.Servers * DatabaseOfServer
	s.DatabaseCores = s.PerSecond * m.database.at(1/s.Held, s.Servers) / 1e6 / Headroom
	s.Commits = s.PerSecond / s.Held
	s.Syncs = s.PerSecond * m.syncs.at(1/s.Held, s.Servers)
	s.WAL = s.PerSecond * m.wal.at(1/s.Held, s.Servers)
	s.PerDay = s.PerSecond * m.grown * secondsOfDay
	s.PerYear = 365 * s.PerDay
	s.BusIn = s.PerSecond * m.busOut
	s.BusOut = s.BusIn * float64(s.Servers-1)
	s.BusInBytes = s.PerSecond * m.busBytes
	s.BusOutBytes = s.BusInBytes * float64(s.Servers-1)
}

// Deviation is how far the model is from a measured point in one figure.
type Deviation struct {
	Point    Point   `json:"-"`
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Model    float64 `json:"model"`
	Percent  float64 `json:"percent"` // of what was measured
}

// Check compares the model with the points that it was made of.
func (m *Model) Check() (all []Deviation) {
	for _, p := range m.measured.Points {
		w := m.writer(p.Servers)
		add := func(what string, measured, model float64) {
			if measured > 0 {
				all = append(all, Deviation{p, what, measured, model, 100 * (model - measured) / measured})
			}
		}
		if p.Full {
			add("messages/s", p.PerSecond, w.rate(1/p.Commits))
		} else {
			add("messages per commit", 1/p.Commits, w.held(p.PerSecond))
		}
		add("server µs", p.ServerCPU, m.server.at(p.Commits, p.Servers))
		add("database µs", p.DatabaseCPU, m.database.at(p.Commits, p.Servers))
		add("database bytes", p.Grown, m.grown)
		add("WAL bytes", p.WAL, m.wal.at(p.Commits, p.Servers))
		add("WAL syncs", p.Syncs, m.syncs.at(p.Commits, p.Servers))
		add("bus bytes", p.BusBytes, m.busBytes)
	}
	return all
}

// Measured returns the points of the model.
func (m *Model) Measured() Measured { return m.measured }
