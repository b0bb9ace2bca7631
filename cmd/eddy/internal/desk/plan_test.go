package desk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/plan"
)

// TestDeskPlan: the command prints the plan of the model, and how far the model is from its points, as text and as JSON.
func TestDeskPlan(t *testing.T) {
	args := []string{"desk", "plan", "--visitors", "1000000", "--messages-per-second", "3000", "--agents", "20000", "--sites", "5000"}
	out, errs, code := cmdtest.Run(t, args...)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %q", code, errs)
	}
	for _, want := range []string{"1,000,000 visitors, 3,000 messages/s, 20,000 agents, 5,000 sites", "shards", "write-ahead log", "the model against", "furthest: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	out, _, _ = cmdtest.Run(t, append(args, "--json")...)
	var r struct {
		Plan  plan.Plan        `json:"plan"`
		Model []plan.Deviation `json:"model_against_points"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m, err := plan.Fit(plan.Points())
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Plan(plan.Load{Visitors: 1_000_000, PerSecond: 3000, Agents: 20_000, Sites: 5000, Cores: 4})
	if err != nil || r.Plan != want || len(r.Model) != len(m.Check()) {
		t.Errorf("%+v, want %+v, %v; %d deviations", r.Plan, want, err, len(r.Model))
	}
}

// TestPageHasPlans: docs/desk-scale.md quotes what the command prints about the points that come with the program.
func TestPageHasPlans(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "desk-scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := 0
	for part := range strings.SplitSeq(string(page), "```\n$ eddy ") {
		line, text, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(line, "desk plan") {
			continue
		}
		text, _, _ = strings.Cut(text, "```")
		quoted++
		out, errs, code := cmdtest.Run(t, strings.Fields(line)...)
		if out, _, _ = strings.Cut(out, "the model against"); code != 0 || out != text {
			t.Errorf("eddy %s: exit code %d, %q; it prints\n%s", line, code, errs, out)
		}
	}
	if quoted != 2 {
		t.Errorf("the page quotes %d plans", quoted)
	}
}

func TestDeskPlanRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("desk: 200 customers"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"desk", "plan", "--visitors", "1000", "--messages-per-second", "10"}
	for _, c := range []struct {
		args          []string
		thing, remedy string
	}{
		{[]string{"--sites", "0"}, "--sites 0", "use 1 to"},
		{[]string{"--visitors", "0"}, "--visitors 0 is out of range", "use 1 to 1000000000"},
		{[]string{"--messages-per-second", "-1"}, "--messages-per-second -1 is out of range", "use 0.001 to"},
		{[]string{"--cores", "0"}, "--cores 0", "use 1 to 1024"},
		{[]string{"--messages-per-second", "100000"}, "--sites 1 is out of range", "or more"},
		{[]string{"--measured", filepath.Join(dir, "missing")}, "--measured", "missing"},
		{[]string{"--measured", text}, "--measured " + text, "--json"},
	} {
		cmdtest.ExpectFailure(t, append(append([]string{}, good...), c.args...), c.thing, c.remedy)
	}
}
