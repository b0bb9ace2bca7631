package benchdesk

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/store"
)

// deskCost is what a message costs the database and the bus. Of PostgreSQL it is what the whole server has done meanwhile.
type deskCost struct {
	Servers int     `json:"servers"`
	Commits float64 `json:"commits_per_message"` // as the servers count them

	LagP99 float64 `json:"feed_lag_p99_ms,omitempty"` // at most; until a server knew what another one had committed
	Lags   uint64  `json:"feed_lags,omitempty"`       // how many there were
	Gaps   uint64  `json:"feed_gaps,omitempty"`

	BusMessages float64 `json:"bus_messages_per_message,omitempty"` // published
	BusBytes    float64 `json:"bus_bytes_per_message,omitempty"`
	BusHeard    float64 `json:"bus_heard_bytes_per_message,omitempty"` // by all servers

	Database *databaseCost `json:"database,omitempty"` // of PostgreSQL
}

// databaseCost is per message.
type databaseCost struct {
	CPU          float64 `json:"cpu_us,omitempty"` // of its processes, if they run on this machine
	Bytes        float64 `json:"bytes"`            // that the database grew
	WAL          float64 `json:"wal_bytes"`
	Syncs        float64 `json:"wal_syncs,omitempty"` // 0 = the server does not tell
	Transactions float64 `json:"transactions"`
	Connections  int     `json:"connections"` // of Desks, at the end, in all
}

// nodeStats is what one server has counted.
type nodeStats struct {
	Lag               store.Latency
	Gaps              uint64
	Commits, Commands uint64
	Bus               bus.Stats
}

func statsOf(s desk.Stats) nodeStats {
	return nodeStats{Lag: s.FeedLag, Gaps: s.FeedGaps, Commits: s.Store.Commits, Commands: s.Store.Commands, Bus: s.Bus}
}

// add adds what another server has counted.
func (s *nodeStats) add(o nodeStats) {
	s.Lag.Count += o.Lag.Count
	for i := range s.Lag.Upto {
		s.Lag.Upto[i] += o.Lag.Upto[i]
	}
	s.Gaps += o.Gaps
	s.Commits += o.Commits
	s.Bus.Sent += o.Bus.Sent
	s.Bus.SentOf += o.Bus.SentOf
	s.Bus.HeardOf += o.Bus.HeardOf
}

// within returns the lowest bound of a latency that all but one in a hundred of those since before have kept, in
// milliseconds; 0 if there were none, and the double of the last bound if none is kept.
func within(now, before store.Latency) float64 {
	count := now.Count - before.Count
	if count == 0 {
		return 0
	}
	for i := range now.Upto {
		if upto := now.Upto[i] - before.Upto[i]; (count-upto)*100 <= count {
			return ms(store.LatencyBound(i))
		}
	}
	return 2 * ms(store.LatencyBound(store.LatencyBounds-1))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// meters are the counters of all servers and of the database.
type meters struct {
	nodes    nodeStats
	database databaseMeter
}

func (r *deskRun) meters(ctx context.Context) (m meters, err error) {
	for _, p := range r.servers {
		s, err := p.stats()
		if err != nil {
			return m, err
		}
		m.nodes.add(s)
	}
	if r.store != "" {
		m.database, err = readDatabase(ctx, r.store)
	}
	return m, err
}

// costed is timed, with what the messages have cost.
func (r *deskRun) costed(ctx context.Context, what string, run func() (deskload.Result, error)) (*deskRate, error) {
	before, err := r.meters(ctx)
	if err != nil {
		return nil, err
	}
	var sent int64
	one, err := r.timed(what, func() (deskload.Result, error) {
		res, err := run()
		sent = res.Sent
		return res, err
	})
	if err != nil {
		return nil, err
	}
	after, err := r.meters(ctx)
	if err != nil {
		return nil, err
	}
	one.Cost = costOf(len(r.servers), before, after, max(sent, 1))
	return one, nil
}

func costOf(servers int, before, after meters, messages int64) *deskCost {
	a, b := after.nodes, before.nodes
	per := func(a, b uint64) float64 { return float64(a-b) / float64(messages) }
	c := &deskCost{
		Servers: servers, Commits: per(a.Commits, b.Commits), LagP99: within(a.Lag, b.Lag), Lags: a.Lag.Count - b.Lag.Count, Gaps: a.Gaps - b.Gaps,
		BusMessages: per(a.Bus.Sent, b.Bus.Sent), BusBytes: per(a.Bus.SentOf, b.Bus.SentOf), BusHeard: per(a.Bus.HeardOf, b.Bus.HeardOf),
	}
	if after.database.processes != nil {
		c.Database = after.database.since(before.database, messages)
	}
	return c
}

// databaseMeter is what a server of PostgreSQL has counted.
type databaseMeter struct {
	bytes, wal, syncs, transactions int64
	connections                     int
	processes                       map[int]time.Duration // processor time of those on this machine
}

// since returns what has come since before, for each of some messages.
func (d *databaseMeter) since(before databaseMeter, messages int64) *databaseCost {
	per := func(a, b int64) float64 { return float64(a-b) / float64(messages) }
	c := &databaseCost{
		Bytes: per(d.bytes, before.bytes), WAL: per(d.wal, before.wal), Syncs: per(d.syncs, before.syncs), Transactions: per(d.transactions, before.transactions),
		Connections: d.connections,
	}
	for pid, used := range d.processes {
		if then, ok := before.processes[pid]; ok {
			c.CPU += float64((used - then).Microseconds()) / float64(messages)
		}
	}
	return c
}

// readDatabase asks a server of PostgreSQL for its counters.
func readDatabase(ctx context.Context, url string) (d databaseMeter, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT pg_database_size(current_database()), CAST(pg_current_wal_lsn() - '0/0' AS bigint), xact_commit
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&d.bytes, &d.wal, &d.transactions)
	if err != nil {
		return d, err
	}
	if conn.QueryRow(ctx, `SELECT wal_sync FROM pg_stat_wal`).Scan(&d.syncs) != nil {
		d.syncs = 0 // a version that counts them elsewhere
	}
	rows, err := conn.Query(ctx, `SELECT pid, datname IS NOT DISTINCT FROM current_database() AND pid <> pg_backend_pid() FROM pg_stat_activity`)
	if err != nil {
		return d, err
	}
	d.processes = make(map[int]time.Duration)
	var pid int
	var ours bool
	_, err = pgx.ForEachRow(rows, []any{&pid, &ours}, func() error {
		if ours {
			d.connections++
		}
		if name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil && strings.HasPrefix(string(name), "postgres") {
			if used, err := processorTime(pid); err == nil {
				d.processes[pid] = used
			}
		}
		return nil
	})
	return d, err
}

func (c *deskCost) print(t *cli.Terminal) {
	if c == nil {
		return
	}
	if c.Lags > 0 {
		t.Say("  feed lag      p99 at most %g ms (of %d; target 50 ms), %d gaps", c.LagP99, c.Lags, c.Gaps)
	}
	t.Say("  commits       %.3f for each message, of %d servers", c.Commits, c.Servers)
	if d := c.Database; d != nil {
		t.Say("  database      %.0f µs of processor time, %.0f bytes, %.0f bytes of WAL, %.3f syncs and %.2f transactions for each message; %d connections",
			d.CPU, d.Bytes, d.WAL, d.Syncs, d.Transactions, d.Connections)
	}
	if c.BusMessages > 0 {
		t.Say("  bus           %.2f messages of %.0f bytes for each message, heard as %.0f bytes", c.BusMessages, c.BusBytes, c.BusHeard)
	}
}
