package metrics

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/metrics/internal/expotest"
)

// dashboard is what the tests read of docs/grafana/eddy.json.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
}

var (
	dashboardVariable = regexp.MustCompile(`"\$([a-z]\w*)"`)
	templateLabel     = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?(\w+)`)
)

// TestDashboard: the dashboard can be read, each of its queries asks for metrics and labels that exist, panels do not lie over
// each other, and what R196 to R204 name is on it.
func TestDashboard(t *testing.T) {
	text := expotest.Read(t, "docs", "grafana", "eddy.json")
	var d dashboard
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	c, names := promised(t), map[string]bool{"datasource": true}
	for _, v := range d.Templating.List {
		if names[v.Name] = true; v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		of, label, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(q.Query, "label_values("), ")"), ", ")
		if !ok || !c.check(t, "variable "+v.Name, of)[label] {
			t.Errorf("variable %s: %s has no label %q", v.Name, of, label)
		}
	}
	for _, v := range dashboardVariable.FindAllStringSubmatch(strings.ReplaceAll(text, `\"`, `"`), -1) {
		if !names[v[1]] {
			t.Errorf("nothing defines the variable %s", v[1])
		}
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Fatalf("%q lies over %q, or outside", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s has no query", p.Title)
		}
		for _, q := range p.Targets {
			there := c.check(t, p.Title, q.Expr)
			for _, l := range templateLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !there[l[1]] {
					t.Errorf("%s: the legend names %s, which %s does not have", p.Title, l[1], q.Expr)
				}
			}
		}
	}
	for _, metric := range []string{
		"eddy_loop_connections", "eddy_loop_events_total", "eddy_loop_received_bytes_total", "eddy_loop_sent_bytes_total", "eddy_loop_write_interest_connections",
		"eddy_loop_outbound_queued_bytes", "eddy_loop_tasks_queued", "eddy_loop_lag_seconds", "eddy_server_closed_total", "eddy_server_rejected_total",
		"eddy_overload_grade", "eddy_overload_pressure", "eddy_pool_wasted_total",
	} {
		if !strings.Contains(text, metric) {
			t.Errorf("%s is not on the dashboard", metric)
		}
	}
}

// rules is a file of alert rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// alerts are the rules of docs/alerts.yml.
func alerts(t *testing.T) (file rules) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(expotest.Read(t, "docs", "alerts.yml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAlerts: the rules can be read, ask for metrics and labels that exist, wait for times that are times, and say what is wrong
// by labels that their results have.
func TestAlerts(t *testing.T) {
	c, names := promised(t), map[string]bool{}
	for _, g := range alerts(t).Groups {
		for _, r := range g.Rules {
			if names[r.Alert] || !strings.HasPrefix(r.Alert, "Eddy") {
				t.Errorf("%q in %s is no name, or there twice", r.Alert, g.Name)
			}
			names[r.Alert] = true
			there := c.check(t, r.Alert, r.Expr)
			if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" {
					t.Errorf("%s has no %s", r.Alert, name)
				}
				for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations[name], -1) {
					if !there[l[1]] {
						t.Errorf("%s: %s names the label %s, which %s does not have", r.Alert, name, l[1], r.Expr)
					}
				}
			}
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d rules", len(names))
	}
}

// TestChecksOfQueries shows that the checks refuse what they must.
func TestChecksOfQueries(t *testing.T) {
	c := promised(t)
	for _, query := range []string{
		"eddy_no_such_metric", `eddy_server_connections{tenant="x"}`, "sum by (loop) (eddy_server_connections)", "rate(eddy_server_connections[5m])", "sum(",
		`eddy_server_closed_total{reason="normall"}`, `eddy_server_rejected_total{cause="rate|speed"}`,
	} {
		probe := &testing.T{}
		if c.check(probe, "probe", query); !probe.Failed() {
			t.Errorf("%s passes", query)
		}
	}
	if there := c.check(t, "probe", "sum by (server) (rate(eddy_server_closed_total[$__rate_interval]))"); len(there) != 1 || !there["server"] {
		t.Errorf("the labels of a sum are %v", there)
	}
}
