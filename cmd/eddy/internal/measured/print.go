package measured

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the run for a person.
func (r *Run) Print(w io.Writer) {
	what := r.Scenario
	if r.Protocol != r.Scenario {
		what += " " + r.Protocol
	}
	if r.TLS {
		what += " over TLS"
	}
	load := fmt.Sprintf("%d connections, %d B, %d in flight each", r.Conns, r.Size, r.InFlight)
	switch {
	case r.Scenario == "churn" && r.Rate > 0:
		load = fmt.Sprintf("%d visits/s, at most %d at a time, %d B", r.Rate, r.Conns, r.Size)
	case r.Scenario == "churn":
		load = fmt.Sprintf("%d visitors, %d B", r.Conns, r.Size)
	case r.Rate > 0:
		load = fmt.Sprintf("%d requests/s on %d connections, %d B, at most %d in flight each", r.Rate, r.Conns, r.Size, r.InFlight)
	}
	fmt.Fprintf(w, "%s %s: %s, %.1f s\n", what, r.Addr, load, r.Seconds)
	if r.Attack == nil {
		r.Outcome.print(w)
		return
	}
	r.Attack.print(w, r.Scenario)
	fmt.Fprintln(w, "victims, undisturbed")
	r.Undisturbed.print(w)
	fmt.Fprintln(w, "victims, beside the attackers")
	r.Outcome.print(w)
}

func (a *Attack) print(w io.Writer, scenario string) {
	fmt.Fprintf(w, "%d attackers: %d connections opened, %d not let in, %d bytes sent\n", a.Attackers, a.Opened, a.Rejected, a.Sent)
	fmt.Fprintf(w, "  closed by the server  %d%s\n", a.Closed, kinds(a.Ends))
	if a.Closed > 0 {
		fmt.Fprintf(w, "  closed after          p50 %.1f s, max %.1f s\n", a.Lived.P50/1e3, a.Lived.Max/1e3)
	}
	if scenario == "slowloris" {
		fmt.Fprintf(w, "  left open             %d\n", a.Taking)
		return
	}
	fmt.Fprintf(w, "  left open, paused     %d (the server took nothing for a second)\n", a.Paused)
	fmt.Fprintf(w, "  left open, taking     %d (the server takes what is sent)\n", a.Taking)
}

func (o *Outcome) print(w io.Writer) {
	fmt.Fprintf(w, "  requests    %d\n", o.Requests)
	fmt.Fprintf(w, "  requests/s  %.0f\n", o.PerSecond)
	for _, p := range []struct {
		name string
		ms   float64
	}{{"p50", o.Latency.P50}, {"p90", o.Latency.P90}, {"p99", o.Latency.P99}, {"p99.9", o.Latency.P999}, {"max", o.Latency.Max}} {
		fmt.Fprintf(w, "  %-11s %.3f ms\n", p.name, p.ms)
	}
	if o.Refused > 0 {
		fmt.Fprintf(w, "  refused     %d, p99 %.3f ms\n", o.Refused, o.Refusal.P99)
	}
	if o.Late != nil {
		fmt.Fprintf(w, "  unanswered  %d\n", o.Unanswered)
		fmt.Fprintf(w, "  sent late   p50 %.3f ms, p99 %.3f ms after they were due\n", o.Late.P50, o.Late.P99)
	}
	fmt.Fprintf(w, "  errors      %d%s\n", o.Errors, kinds(o.Kinds))
	if o.FirstError != "" {
		fmt.Fprintf(w, "  first error %s\n", o.FirstError)
	}
}

// kinds returns text such as ": 3 reset, 1 timeout", or "" if there are none.
func kinds(of map[string]int64) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[kind], kind))
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// PrintComparison writes the rows for a person.
func PrintComparison(w io.Writer, sides []Side, rows []Row) {
	fmt.Fprintf(w, "base: %s, %d runs; geometric means with intervals of 95 %% confidence\n", sides[0].Name, len(sides[0].Runs))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range sides[1:] {
		fmt.Fprintf(tab, "\n%s, %d runs\tbase\tthis\tratio\t\n", s.Name, len(s.Runs))
		for _, r := range rows {
			if r.Side == s.Name {
				fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", r.Metric, r.Base.text(r.Decimals), r.Value.text(r.Decimals), r.Ratio.text(3), r.Verdict)
			}
		}
	}
	_ = tab.Flush() // nobody reads a terminal that is gone
}

func (m Mean) text(decimals int) string {
	switch {
	case m.Mean == 0:
		return "-"
	case m.Low == 0:
		return fmt.Sprintf("%.*f", decimals, m.Mean)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, m.Mean, decimals, m.Low, decimals, m.High)
}
