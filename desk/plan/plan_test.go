package plan

import (
	"math"
	"os"
	"strings"
	"testing"
)

func fitted(t *testing.T, m Measured) *Model {
	t.Helper()
	model, err := Fit(m)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// furthest is how far the model may be from a measured point, in percent: the points are of a busy machine.
const furthest = 60

// TestModelIsNearItsPoints: the model says about every point what was measured there, within the bound, and half of it more closely.
func TestModelIsNearItsPoints(t *testing.T) {
	m := fitted(t, Points())
	all := m.Check()
	near := 0
	for _, d := range all {
		if math.Abs(d.Percent) > furthest {
			t.Errorf("%+v: %s measured %.3g, model %.3g", d.Point, d.What, d.Measured, d.Model)
		}
		if math.Abs(d.Percent) <= furthest/4 {
			near++
		}
	}
	if near*2 < len(all) || len(all) < 6*len(Points().Points) {
		t.Errorf("%d of %d figures are near", near, len(all))
	}
}

// made are points of a machine whose constants are known.
func made() Measured {
	m := Measured{Idle: 4000}
	for _, servers := range []int{1, 3} {
		w := writer{commit: 0.001 * float64(servers), message: 0.0005}
		for _, rate := range []float64{100, 500, 0} {
			p := Point{Servers: servers, PerSecond: rate}
			held := w.held(rate)
			if p.Full = rate == 0; p.Full {
				held = 50
				p.PerSecond = w.rate(held)
			}
			p.Commits = 1 / held
			p.ServerCPU = 200 + 800*p.Commits + 50*float64(servers-1)
			p.DatabaseCPU = 100 + 400*p.Commits + 10*float64(servers-1)
			p.WAL, p.Grown, p.Syncs = 2000+1000*p.Commits, 1200, 0.01+p.Commits
			if servers > 1 {
				p.BusMessages, p.BusBytes = 1, 1800
			}
			m.Points = append(m.Points, p)
		}
	}
	return m
}

// TestFitFindsConstants: from points that a model has made the same model comes back, and the points with it.
func TestFitFindsConstants(t *testing.T) {
	m := fitted(t, made())
	for what, got := range map[string][2]float64{
		"commit": {m.together.commit, 0.003}, "message": {m.together.message, 0.0005}, "alone": {m.alone.commit, 0.001},
		"server": {m.server.base, 200}, "of a commit": {m.server.commits, 800}, "of another server": {m.server.others, 50},
		"database": {m.database.commits, 400}, "WAL": {m.wal.commits, 1000}, "grown": {m.grown, 1200}, "syncs": {m.syncs.base, 0.01}, "bus": {m.busBytes, 1800},
	} {
		if math.Abs(got[0]-got[1]) > got[1]/100 {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
	for _, d := range m.Check() {
		if math.Abs(d.Percent) > 1 {
			t.Errorf("%+v", d)
		}
	}
}

// TestPlanKnown: a plan by hand, of the machine whose constants are known.
func TestPlanKnown(t *testing.T) {
	m := fitted(t, made())
	p, err := m.Plan(Load{Visitors: 90_000, PerSecond: 500, Agents: 1000, Sites: 1, Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	// held = (1 + 500 × 3 ms) / (1 - 500 × 0.5 ms) = 3.33; 3 servers, because two of them have to take 91,000 connections.
	want := Shard{
		Visitors: 90_000, Agents: 1000, PerSecond: 500, Servers: 3, Because: "connections", Connections: 45_500, Busy: 500 * 540e-6 / 4, Memory: 128e6 + 45_500*4000, ServerCPU: 540,
		DatabaseConnections: 60, DatabaseCores: 500 * 240e-6 / 0.6, Held: 10. / 3, Commits: 150, Syncs: 155, WAL: 500 * 2300, PerDay: 500 * 1200 * 86400, PerYear: 365 * 500 * 1200 * 86400,
		BusIn: 500, BusOut: 1000, BusInBytes: 900_000, BusOutBytes: 1_800_000,
	}
	got := p.Each
	if got.Because != want.Because || got.Servers != want.Servers || got.Connections != want.Connections || got.DatabaseConnections != want.DatabaseConnections {
		t.Errorf("%+v, want %+v", got, want)
	}
	for what, v := range map[string][2]float64{
		"busy": {got.Busy, want.Busy}, "memory": {got.Memory, want.Memory}, "cpu": {got.ServerCPU, want.ServerCPU}, "cores": {got.DatabaseCores, want.DatabaseCores}, "held": {got.Held, want.Held},
		"commits": {got.Commits, want.Commits}, "syncs": {got.Syncs, want.Syncs}, "WAL": {got.WAL, want.WAL}, "day": {got.PerDay, want.PerDay}, "year": {got.PerYear, want.PerYear},
		"in": {got.BusIn, want.BusIn}, "out": {got.BusOut, want.BusOut}, "in bytes": {got.BusInBytes, want.BusInBytes}, "out bytes": {got.BusOutBytes, want.BusOutBytes},
	} {
		if math.Abs(v[0]-v[1]) > v[1]/50 {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
	if p.Shards != 1 || p.Servers != 3 {
		t.Errorf("%d shards, %d servers", p.Shards, p.Servers)
	}
}

// TestPlanCarries: whatever the load, the shards carry all of it with one server of each gone, within the headroom; and a larger load
// never takes less.
func TestPlanCarries(t *testing.T) {
	m := fitted(t, Points())
	var before Plan
	for scale := 1; scale <= 1_000_000; scale *= 10 {
		l := Load{Visitors: 100 * scale, PerSecond: float64(scale), Agents: scale, Sites: 100_000, Cores: 4}
		p, err := m.Plan(l)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Each
		if s.Visitors*p.Shards < l.Visitors || s.Agents*p.Shards < l.Agents || math.Abs(s.PerSecond*float64(p.Shards)-l.PerSecond) > l.PerSecond/1e9 || p.Servers != p.Shards*s.Servers {
			t.Errorf("the shards do not add up: %+v", p)
		}
		if s.Servers < 2 || s.Servers > ServersOfShard || s.Connections > ConnectionsOfServer || s.Connections*(s.Servers-1) < s.Visitors+s.Agents || s.Busy > Headroom || s.PerSecond > Headroom*p.Writer {
			t.Errorf("a shard is too small: %+v", s)
		}
		if p.Shards < before.Shards || p.Servers < before.Servers || p.PerDay < before.PerDay || p.DBCores < before.DBCores || p.BusBytes < before.BusBytes {
			t.Errorf("%+v takes less than %+v", p, before)
		}
		before = p
	}
	if before.Shards < 100 || before.Because == "one database is enough" {
		t.Errorf("100 million visitors: %+v", before)
	}
}

// TestPlanDecides: what decides is named, and is that.
func TestPlanDecides(t *testing.T) {
	slow := made()
	for i := range slow.Points {
		slow.Points[i].ServerCPU *= 10
	}
	m := fitted(t, slow)
	for _, c := range []struct {
		load            Load
		shards, servers string
	}{
		{Load{100, 1, 1, 1000, 4}, "one database is enough", "one may die"},
		{Load{400_000, 1, 1, 1000, 4}, "one database is enough", "connections"},
		{Load{100, 600, 1, 1000, 1}, "one database is enough", "processor time"},
		{Load{100, 10_000, 1, 1000, 64}, "one transaction at a time writes to a database", "one may die"},
		{Load{10_000_000, 1, 1, 1000, 4}, "more than 64 servers on one database are not planned", "connections"},
	} {
		p, err := m.Plan(c.load)
		if err != nil || p.Because != c.shards || p.Each.Because != c.servers || (p.Shards > 1) == (c.shards == "one database is enough") {
			t.Errorf("%+v: %d shards, %q; %d servers, %q, %v", c.load, p.Shards, p.Because, p.Each.Servers, p.Each.Because, err)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	m := fitted(t, Points())
	good := Load{Visitors: 1000, PerSecond: 10, Agents: 10, Sites: 1, Cores: 4}
	for want, change := range map[string]func(*Load){
		"visitors 0 is out of range: use 1 to 1000000000":              func(l *Load) { l.Visitors = 0 },
		"visitors 1e+10 is out of range":                               func(l *Load) { l.Visitors = 10_000_000_000 },
		"messages-per-second 0 is out of range: use 0.001 to 10000000": func(l *Load) { l.PerSecond = 0 },
		"messages-per-second NaN is out of range":                      func(l *Load) { l.PerSecond = math.NaN() },
		"agents -1 is out of range":                                    func(l *Load) { l.Agents = -1 },
		"sites 0 is out of range":                                      func(l *Load) { l.Sites = 0 },
		"cores 2000 is out of range: use 1 to 1024":                    func(l *Load) { l.Cores = 2000 },
		"sites 1 is out of range: this load takes":                     func(l *Load) { l.PerSecond = 100_000 },
	} {
		l := good
		change(&l)
		if _, err := m.Plan(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", l, err, want)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	for want, change := range map[string]func(*Measured){
		"no memory of an idle visitor": func(m *Measured) { m.Idle = 0 },
		"point 2 is not whole":         func(m *Measured) { m.Points[1].Commits = 0 },
		"one server: there are 0":      func(m *Measured) { m.Points = m.Points[3:] },
		"several servers: there are 2 points, and a point at full load is missing": func(m *Measured) { m.Points = m.Points[:5] },
		"do not say where the writer ends": func(m *Measured) {
			for i := range m.Points {
				m.Points[i].Commits = 1
			}
		},
	} {
		m := made()
		change(&m)
		if _, err := Fit(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRead: points come from what runs have printed; an empty file, other JSON, and a run without a database are told.
func TestRead(t *testing.T) {
	m, err := Read(strings.NewReader(`{"idle":{"bytes_per_visitor":4000}}
		{"rate":{"per_second":100,"server_cpu_us_per_message":7,"cost":{"servers":3,"commits_per_message":0.5,"bus_messages_per_message":1,"bus_bytes_per_message":9,"database":{"cpu_us":2,"bytes":3,"wal_bytes":4,"wal_syncs":5}}},
		"full":{"per_second":900,"cost":{"servers":3,"database":{}}}}`))
	want := Point{Servers: 3, PerSecond: 100, Commits: 0.5, ServerCPU: 7, DatabaseCPU: 2, Grown: 3, WAL: 4, Syncs: 5, BusMessages: 1, BusBytes: 9}
	if err != nil || m.Idle != 4000 || len(m.Points) != 2 || m.Points[0] != want || !m.Points[1].Full {
		t.Errorf("%+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"": "there are no points", "desk: 200 customers": "is not JSON", `{"rate":{"per_second":1}}`: "measure with --store",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestPlanKnowsThePage: the connections of a Desk to its database are those that the page names.
func TestPlanKnowsThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/desk-postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "Each Desk has up to 20 connections") || DatabaseOfServer != 20 {
		t.Errorf("docs/desk-postgres.md says another number of connections than %d", DatabaseOfServer)
	}
}
