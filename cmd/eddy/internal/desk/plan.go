package desk

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/plan"
)

// planFlags are the flags of "eddy desk plan".
type planFlags struct {
	load     plan.Load
	measured string
	asJSON   bool
}

func newPlan(t *cli.Terminal) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compute what a number of visitors and messages takes: servers, database, bus, shards",
		Long: "Compute what a number of visitors and messages takes, by a model that was fitted to measured points, and print how far the model is from these.\n" +
			"The rate is that of the busiest time. Databases grow by it as if it lasted all day. Every shard is a Desk of its own, with its own database; a site is in one of them.\n" +
			"Points of your own machines are what \"eddy bench desk --json\" prints for --only rate,full, with one server and with several, and several rates, in one file.",
		Example: "  eddy desk plan --visitors 10000 --messages-per-second 200\n  eddy desk plan --visitors 1000000 --messages-per-second 3000 --agents 20000 --sites 5000\n" +
			"  eddy desk plan --visitors 10000 --messages-per-second 200 --measured runs.json --json",
		RunE: func(*cobra.Command, []string) error { return runPlan(t, &f) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.load.Visitors, "visitors", 0, "visitors who are connected at a time")
	fl.Float64Var(&f.load.PerSecond, "messages-per-second", 0, "messages of visitors and agents")
	fl.IntVar(&f.load.Agents, "agents", 0, "agents who are connected at a time; 0 = one for each hundred visitors")
	fl.IntVar(&f.load.Sites, "sites", 1, "sites, which share the load evenly")
	fl.IntVar(&f.load.Cores, "cores", 4, "processors of a server")
	fl.StringVar(&f.measured, "measured", "", "file with what \"eddy bench desk --json\" has printed; empty = the points that come with the program")
	fl.BoolVar(&f.asJSON, "json", false, "print the plan, and how far the model is from the points, as JSON")
	return cmd
}

// planReport is what --json prints.
type planReport struct {
	Plan    plan.Plan        `json:"plan"`
	Date    string           `json:"measured"`
	Machine string           `json:"machine"`
	Model   []plan.Deviation `json:"model_against_points"`
}

func runPlan(t *cli.Terminal, f *planFlags) error {
	if f.load.Agents == 0 {
		f.load.Agents = max(f.load.Visitors/100, 1)
	}
	if err := f.load.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	points, err := f.points()
	if err != nil {
		return err
	}
	model, err := plan.Fit(points)
	if err != nil {
		return err
	}
	p, err := model.Plan(f.load)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	if f.asJSON {
		e := json.NewEncoder(t.Out)
		e.SetIndent("", "  ")
		return e.Encode(planReport{p, points.Date, points.Machine, model.Check()})
	}
	sayPlan(t, &p)
	sayModel(t, model)
	return nil
}

// points returns those of --measured, or those of the program.
func (f *planFlags) points() (plan.Measured, error) {
	ours := plan.Points()
	if f.measured == "" {
		return ours, nil
	}
	file, err := os.Open(f.measured)
	if err != nil {
		return plan.Measured{}, fmt.Errorf("--measured: %w", err)
	}
	defer file.Close()
	m, err := plan.Read(file)
	if err != nil {
		return m, fmt.Errorf("--measured %s: %w", f.measured, err)
	}
	if m.Idle == 0 { // not measured there
		m.Idle = ours.Idle
	}
	m.Date, m.Machine = "", f.measured
	return m, nil
}

// many writes a number with as many digits as say something.
func many(v float64) string {
	switch {
	case v >= 100 || v == math.Trunc(v):
		return grouped(int64(math.Round(v)))
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// grouped writes a number in groups of three digits.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// sized writes bytes in a unit that fits.
func sized(bytes float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; bytes >= 1000 && i < len(units)-1; i++ {
		bytes /= 1000
	}
	return many(bytes) + " " + units[i]
}

func sayPlan(t *cli.Terminal, p *plan.Plan) {
	l, s := p.Load, p.Each
	t.Say("%s visitors, %s messages/s, %s agents, %s sites", grouped(int64(l.Visitors)), many(l.PerSecond), grouped(int64(l.Agents)), grouped(int64(l.Sites)))
	t.Say("  shards        %s (%s; its limit is %s messages/s, planned to %.0f %%)", grouped(int64(p.Shards)), p.Because, many(p.Writer), 100*plan.Headroom)
	t.Say("  in all        %s servers, %s database cores, %s a day, %s a year, %s/s on the buses", grouped(int64(p.Servers)), many(p.DBCores), sized(p.PerDay), sized(p.PerYear), sized(p.BusBytes))
	t.Say("each shard: %s visitors, %s agents, %s messages/s", grouped(int64(s.Visitors)), grouped(int64(s.Agents)), many(s.PerSecond))
	t.Say("  servers       %d of %d cores, of which one may die (%s)", s.Servers, l.Cores, s.Because)
	t.Say("  one server    %s connections, %s of memory for them, %.0f %% busy when one has died; %s µs for each message", grouped(int64(s.Connections)), sized(s.Memory), 100*s.Busy, many(s.ServerCPU))
	t.Say("  database      %d connections, %s cores, %s messages in a commit, %s commits/s, %s syncs/s", s.DatabaseConnections, many(s.DatabaseCores), many(s.Held), many(s.Commits), many(s.Syncs))
	t.Say("                %s/s of write-ahead log, grows by %s a day, %s a year", sized(s.WAL), sized(s.PerDay), sized(s.PerYear))
	t.Say("  bus           %s messages/s in and %s/s out, %s/s in and %s/s out", many(s.BusIn), many(s.BusOut), sized(s.BusInBytes), sized(s.BusOutBytes))
}

// sayModel says how far the model is from the points.
func sayModel(t *cli.Terminal, m *plan.Model) {
	measured := m.Measured()
	t.Say("the model against %d measured points (%s%s):", len(measured.Points), measured.Date, " "+measured.Machine)
	var last plan.Point
	worst := 0.0
	for _, d := range m.Check() {
		if d.Point != last {
			last = d.Point
			how := "at a rate"
			if d.Point.Full {
				how = "at full load"
			}
			t.Say("  %d servers, %s messages/s %s", d.Point.Servers, many(d.Point.PerSecond), how)
		}
		t.Say("    %-20s measured %10s, model %10s, %+.0f %%", d.What, many(d.Measured), many(d.Model), d.Percent)
		worst = max(worst, math.Abs(d.Percent))
	}
	t.Say("  furthest: %.0f %%", worst)
}
