package deskmetrics

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/metrics/internal/expotest"
)

// TestDocument: docs/metrics.md lists every metric of the package, and none that is not there.
func TestDocument(t *testing.T) { expotest.Document(t, "Desk", families()) }

// known is a Desk whose numbers the test knows.
type known struct{ st desk.Stats }

func (k *known) Stats() desk.Stats { return k.st }

// gathered returns the value of each series of a collector, and how many of each metric there are.
func gathered(t *testing.T, c prometheus.Collector) (values map[string]float64, counts map[string]int) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(found).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	values, counts = map[string]float64{}, map[string]int{}
	for _, f := range found {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			series := f.GetName() + " " + strings.Join(labels, " ")
			values[series] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				values[series] = h.GetSampleSum()
				for _, b := range h.GetBucket() {
					values[fmt.Sprintf("%s %v", series, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			}
			counts[f.GetName()]++
		}
	}
	return values, counts
}

// TestEveryNumber: each metric is there, with the number of its own field.
func TestEveryNumber(t *testing.T) {
	k := &known{desk.Stats{
		Sessions: 3, Messages: 5, Acks: 7, Dups: 8, Routed: 9, Dropped: 10, OriginRefused: 11, LaneRejects: 12, BotBadCallbacks: 13,
		Load:   hub.Load{Customers: 14, Staff: map[perm.Role]int{perm.Agent: 15, perm.Admin: 16}, Bot: 17, Queued: 18, Assigned: 19, Longest: 2 * time.Minute},
		Store:  store.Stats{Commits: 20, Commands: 21, Failures: 22, Waiting: 23, Latency: store.Latency{Count: 24, Sum: 3 * time.Second, Upto: [store.LatencyBounds]uint64{1, 2, 12: 23}}},
		Errors: map[string]uint64{"rate_limited": 4}, Closes: map[string]uint64{"4001": 2},
	}}
	for i := range maxBots + 5 {
		k.st.Bots = append(k.st.Bots, hub.BotStats{ID: fmt.Sprintf("b%03d", i), WebhookStats: bot.WebhookStats{Breaker: bot.BreakerOpen, Running: i, Opened: 6}})
	}
	c := New()
	if err := c.Register("main", k); err != nil {
		t.Fatal(err)
	}
	values, counts := gathered(t, c)
	for _, f := range families() {
		if counts[f.Name] == 0 {
			t.Errorf("%s is not there", f.Name)
		}
	}
	for series, want := range map[string]float64{
		"eddy_desk_sessions main": 3, "eddy_desk_messages_total main": 5, "eddy_desk_acks_total main": 7, "eddy_desk_duplicates_total main": 8,
		"eddy_desk_routed_total main": 9, "eddy_desk_dropped_events_total main": 10, "eddy_desk_refused_total main origin": 11,
		"eddy_desk_refused_total main lane": 12, "eddy_desk_refused_total main bot_callback": 13, "eddy_desk_refused_total main login": 0,
		"eddy_desk_errors_total rate_limited main": 4, "eddy_desk_closed_total 4001 main": 2,
		"eddy_desk_connections main customer": 14, "eddy_desk_connections main agent": 15, "eddy_desk_connections main admin": 16,
		"eddy_desk_conversations main bot": 17, "eddy_desk_conversations main queued": 18, "eddy_desk_conversations main assigned": 19,
		"eddy_desk_longest_wait_seconds main": 120, "eddy_desk_store_commits_total main": 20, "eddy_desk_store_commands_total main": 21,
		"eddy_desk_store_failures_total main": 22, "eddy_desk_store_waiting main": 23, "eddy_desk_store_command_seconds main": 3,
		"eddy_desk_store_command_seconds main 0.001": 1, "eddy_desk_store_command_seconds main 0.0025": 2, "eddy_desk_store_command_seconds main 10": 23,
		"eddy_desk_bot_running b007 main": 7, "eddy_desk_bot_breaker_opened_total b000 main": 6,
		"eddy_desk_bot_breaker b000 main open": 1, "eddy_desk_bot_breaker b000 main closed": 0, "eddy_desk_bot_breaker b000 main half_open": 0,
	} {
		if v, ok := values[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if n := counts["eddy_desk_bot_running"]; n != maxBots {
		t.Errorf("%d bots have series, limit %d", n, maxBots)
	}
}

// TestRegister: Desks have different names.
func TestRegister(t *testing.T) {
	c, k := New(), &known{}
	for i, r := range []struct {
		name string
		desk Stater
		want string
	}{
		{"a", k, ""}, {"b", k, ""}, {"a", k, `named "a" is registered`}, {"", k, "is no name"}, {"\xff", k, "is no name"}, {"c", nil, "no Desk"},
	} {
		if err := c.Register(r.name, r.desk); (err == nil) != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
			t.Errorf("%d: %v, want %q", i, err, r.want)
		}
	}
	if _, counts := gathered(t, c); counts["eddy_desk_sessions"] != 2 {
		t.Errorf("%v", counts)
	}
	for i := range maxDesks - 2 {
		if err := c.Register(fmt.Sprint(i), k); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Register("more", k); err == nil || !strings.Contains(err.Error(), "more than 16") {
		t.Error(err)
	}
}

// TestDesk: a real Desk can be scraped while it works and when it has ended.
func TestDesk(t *testing.T) {
	d, err := desk.Open(t.Context(), desk.Options{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Loops: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := New()
	if err := c.Register("main", d); err != nil {
		t.Fatal(err)
	}
	if values, _ := gathered(t, c); values["eddy_desk_sessions main"] != 0 || len(values) < 30 {
		t.Errorf("%v", values)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if values, _ := gathered(t, c); len(values) < 30 {
		t.Errorf("after the end: %v", values)
	}
}
