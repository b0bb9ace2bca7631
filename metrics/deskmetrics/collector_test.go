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
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
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
		Connects: 30, Welcomes: 31, Resumes: 32, Replayed: 33, Truncated: 34, Frames: 35, Late: 36, RouterRetries: 37, Timers: 38, Offers: 39, Reconciled: 40, TargetMisses: 62,
		BotTurns: 41, BotFailed: 42, BotLate: 43, Logins: 44, Visitors: 45, Uploads: 46, FilesSent: 47, AuditLost: 48,
		CrossSite: 50, LoginsFailed: 51, LoginsThrottled: 52, VisitorsRefused: 53, SocketsRefused: 54, IdentitiesBad: 55, RequestsBusy: 56,
		RequestsDenied: 57, UploadsRefused: 58, LinksRefused: 59, PoolRejects: 60, BotRefused: 61,
		Load:  hub.Load{Customers: 14, Staff: map[perm.Role]int{perm.Agent: 15, perm.Admin: 16}, Bot: 17, Queued: 18, Assigned: 19, Longest: 2 * time.Minute, Missed: 63},
		Store: store.Stats{Commits: 20, Commands: 21, Failures: 22, Waiting: 23, Latency: store.Latency{Count: 24, Sum: 3 * time.Second, Upto: [store.LatencyBounds]uint64{1, 2, 12: 23}}},
		Bus:   bus.Stats{Up: true, Connects: 100, Sent: 101, SentOf: 106, Heard: 102, HeardOf: 107, Dropped: 103, Refused: 104}, BusLost: 1000, BusBad: 2000, FeedLag: store.Latency{Count: 105, Sum: time.Second},
		Mail:   mail.Stats{Sent: 80, Failed: 81, Dead: 82, Queued: 83, Kept: 84},
		Push:   push.Stats{Sent: 90, Failed: 91, Gone: 92, Lost: 93, Waiting: 94},
		Hooks:  []hooks.Stats{{ID: "w1", Failing: true, Behind: 80, Waiting: 81, Delivered: 82, Failed: 83, Dead: 84, Lost: 85}},
		Errors: map[string]uint64{"rate_limited": 4}, Closes: map[string]uint64{"4001": 2},
	}}
	for i := range maxBots + 5 {
		k.st.Bots = append(k.st.Bots, hub.BotStats{ID: fmt.Sprintf("b%03d", i), WebhookStats: bot.WebhookStats{
			Breaker: bot.BreakerOpen, Running: i, Opened: 6, Waiting: 70, Asked: 71, Retried: 72, Accepted: 73, Failed: 74, Refused: 75,
		}})
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
		"eddy_desk_bus_up main": 1, "eddy_desk_bus_connects_total main": 100, "eddy_desk_bus_sent_total main": 101, "eddy_desk_bus_heard_total main": 102, "eddy_desk_bus_sent_bytes_total main": 106, "eddy_desk_bus_heard_bytes_total main": 107,
		"eddy_desk_bus_lost_total main": 1103, "eddy_desk_bus_refused_total main": 2104,
		"eddy_desk_sessions main": 3, "eddy_desk_messages_total main": 5, "eddy_desk_acks_total main": 7, "eddy_desk_duplicates_total main": 8,
		"eddy_desk_routed_total main": 9, "eddy_desk_dropped_events_total main": 10, "eddy_desk_refused_total main origin": 11,
		"eddy_desk_refused_total main lane": 12, "eddy_desk_refused_total main bot_callback": 13,
		"eddy_desk_refused_total main cross_site": 50, "eddy_desk_refused_total main login": 51, "eddy_desk_refused_total main login_rate": 52,
		"eddy_desk_refused_total main visitor_rate": 53, "eddy_desk_refused_total main socket_limit": 54, "eddy_desk_refused_total main identity": 55,
		"eddy_desk_refused_total main busy": 56, "eddy_desk_refused_total main permission": 57, "eddy_desk_refused_total main upload": 58,
		"eddy_desk_refused_total main link": 59, "eddy_desk_refused_total main pool": 60, "eddy_desk_refused_total main bot_queue": 61,
		"eddy_desk_connects_total main": 30, "eddy_desk_welcomes_total main": 31, "eddy_desk_resumes_total main": 32, "eddy_desk_replayed_total main": 33,
		"eddy_desk_truncated_total main": 34, "eddy_desk_frames_total main": 35, "eddy_desk_late_commits_total main": 36,
		"eddy_desk_router_retries_total main": 37, "eddy_desk_timers_total main": 38, "eddy_desk_offers_total main": 39,
		"eddy_desk_reconciled_total main": 40, "eddy_desk_bot_turns_total main": 41, "eddy_desk_bot_turns_failed_total main": 42,
		"eddy_desk_bot_answers_late_total main": 43, "eddy_desk_logins_total main": 44, "eddy_desk_visitors_total main": 45,
		"eddy_desk_target_misses_total main": 62, "eddy_desk_targets_missed main": 63,
		"eddy_desk_uploads_total main": 46, "eddy_desk_files_sent_total main": 47, "eddy_desk_audit_lost_total main": 48,
		"eddy_desk_bot_waiting b007 main": 70, "eddy_desk_bot_asked_total b007 main": 71, "eddy_desk_bot_retried_total b007 main": 72,
		"eddy_desk_bot_accepted_total b007 main": 73, "eddy_desk_bot_failed_total b007 main": 74, "eddy_desk_bot_refused_total b007 main": 75,
		"eddy_desk_mails_sent_total main": 80, "eddy_desk_mails_failed_total main": 81, "eddy_desk_mails_given_up_total main": 82,
		"eddy_desk_mails_queued main": 83, "eddy_desk_mails_dead main": 84,
		"eddy_desk_push_sent_total main": 90, "eddy_desk_push_failed_total main": 91, "eddy_desk_push_gone_total main": 92,
		"eddy_desk_push_lost_total main": 93, "eddy_desk_push_waiting main": 94,
		"eddy_desk_errors_total rate_limited main": 4, "eddy_desk_closed_total 4001 main": 2,
		"eddy_desk_connections main customer": 14, "eddy_desk_connections main agent": 15, "eddy_desk_connections main admin": 16,
		"eddy_desk_conversations main bot": 17, "eddy_desk_conversations main queued": 18, "eddy_desk_conversations main assigned": 19,
		"eddy_desk_longest_wait_seconds main": 120, "eddy_desk_store_commits_total main": 20, "eddy_desk_store_commands_total main": 21,
		"eddy_desk_store_failures_total main": 22, "eddy_desk_store_waiting main": 23, "eddy_desk_store_command_seconds main": 3,
		"eddy_desk_store_command_seconds main 0.001": 1, "eddy_desk_store_command_seconds main 0.0025": 2, "eddy_desk_store_command_seconds main 10": 23,
		"eddy_desk_webhook_failing main w1": 1, "eddy_desk_webhook_behind main w1": 80, "eddy_desk_webhook_waiting main w1": 81, "eddy_desk_webhook_delivered_total main w1": 82,
		"eddy_desk_webhook_failed_total main w1": 83, "eddy_desk_webhook_given_up_total main w1": 84, "eddy_desk_webhook_lost_total main w1": 85,
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
	dir := t.TempDir()
	sqlitetest.Prepare(t, datadir.Database(dir))
	d, err := desk.Open(testkit.Context(t), desk.Options{
		DataDir: dir, Addr: "127.0.0.1:0", Loops: 1, Logger: slog.New(slog.DiscardHandler), Passwords: auth.Params{MemoryKiB: 8, Passes: 1, Lanes: 1},
	})
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
