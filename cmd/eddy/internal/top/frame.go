package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/overload"
)

// topWidth is the width of plain text, in characters.
const topWidth = 100

// topFrame returns the lines that "eddy top" shows, each at most width characters long.
func topFrame(w *watcher, width int) []string {
	s := &w.latest
	lines := []string{headline(s), present(s, w.samples), ""}
	lines = append(lines, curves(w.samples, width)...)
	lines = append(lines, "")
	lines = append(lines, columns(loopRows(s))...)
	if len(s.Pools) > 0 {
		lines = append(append(lines, ""), columns(poolRows(s))...)
	}
	if len(s.Lanes) > 0 {
		lines = append(append(lines, ""), columns(laneRows(s))...)
	}
	for _, o := range s.Overload {
		lines = append(append(lines, ""), overloadLines(&o)...)
	}
	lines = append(append(lines, ""), columns(closeRows(s, w.samples))...)
	for i := range lines {
		lines[i] = cutTo(printable(lines[i]), width)
	}
	return lines
}

func headline(s *admin.Snapshot) string {
	state := "ready"
	if !s.Ready {
		var all []string
		for _, r := range s.Reasons {
			all = append(all, r.Check+": "+r.Why)
		}
		state = "NOT READY " + strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s %s, process %d, up %v, %d goroutines, heap %s: %s", s.Program, s.Version, s.Process.PID,
		time.Duration(s.Uptime)*time.Second, s.Process.Goroutines, sizeText(float64(s.Process.Heap)), state)
}

func present(s *admin.Snapshot, samples []admin.Sample) string {
	var now admin.Sample
	if n := len(samples); n > 0 {
		now = samples[n-1]
	}
	return fmt.Sprintf("%s connections  %s requests/s  in %s/s  out %s/s  lag p99 %s  queued %d",
		amount(float64(now.Connections)), amount(now.Requests), sizeText(now.BytesIn), sizeText(now.BytesOut), lagText(now.LagP99),
		now.TaskQueue+now.PoolQueued)
}

// curves draws the last minutes, one character for each sample.
func curves(samples []admin.Sample, width int) []string {
	var lines []string
	for _, c := range []struct {
		name  string
		value func(*admin.Sample) float64
		text  func(float64) string
	}{
		{"connections", func(s *admin.Sample) float64 { return float64(s.Connections) }, amount},
		{"requests/s", func(s *admin.Sample) float64 { return s.Requests }, amount},
		{"bytes/s", func(s *admin.Sample) float64 { return s.BytesIn + s.BytesOut }, sizeText},
		{"lag p99", func(s *admin.Sample) float64 { return s.LagP99 }, lagText},
		{"queued", func(s *admin.Sample) float64 { return float64(s.TaskQueue + s.PoolQueued) }, amount},
	} {
		shown := samples[max(0, len(samples)-max(width-30, 8)):]
		var b strings.Builder
		most := 0.0
		for i := range shown {
			most = max(most, c.value(&shown[i]))
		}
		for i := range shown {
			b.WriteRune(bar(c.value(&shown[i]), most))
		}
		lines = append(lines, fmt.Sprintf("%-12s max %-10s %s", c.name, c.text(most), b.String()))
	}
	return lines
}

// bar returns a character as high as the share of v in most.
func bar(v, most float64) rune {
	if v <= 0 || most <= 0 {
		return ' '
	}
	return []rune("▁▂▃▄▅▆▇█")[min(7, int(v/most*8))]
}

func loopRows(s *admin.Snapshot) [][]string {
	rows := [][]string{{"LOOP", "CONNS", "BUSY", "LAG P50", "P99", "MAX", "TASKS", "OUT QUEUED", "STALLS", "PANICS"}}
	for _, srv := range s.Servers {
		for _, l := range srv.Loops {
			name := srv.Name + " " + l.Name
			if !l.Healthy {
				name += " (poller fails)"
			}
			rows = append(rows, []string{
				name, amount(float64(l.Active)), fmt.Sprintf("%.0f %%", 100*l.Utilisation), lagText(l.LagP50), lagText(l.LagP99), lagText(l.LagMax),
				fmt.Sprint(l.TaskQueue), sizeText(float64(l.Outbound)), fmt.Sprint(l.Stalls), fmt.Sprint(l.Panics),
			})
		}
	}
	return rows
}

func poolRows(s *admin.Snapshot) [][]string {
	rows := [][]string{{"POOL", "RUNNING", "QUEUED", "PARKED", "DONE", "REJECTED", "EXHAUSTED", "PANICS"}}
	for _, p := range s.Pools {
		rows = append(rows, []string{
			p.Name, fmt.Sprintf("%d of %d", p.Running, p.MaxWorkers), fmt.Sprintf("%d of %d", p.Queued, p.MaxQueue), fmt.Sprintf("%d of %d", p.Parked, p.MaxParked),
			fmt.Sprint(p.Completed), fmt.Sprint(p.Rejected), fmt.Sprint(p.Exhausted), fmt.Sprint(p.Panics),
		})
	}
	return rows
}

func laneRows(s *admin.Snapshot) [][]string {
	rows := [][]string{{"LANE", "WORKERS", "QUEUED", "SPILLED", "DONE", "REJECTED", "WAITED", "LOST", "PANICS", "FAULT"}}
	for _, l := range s.Lanes {
		rows = append(rows, []string{
			l.Set + " " + l.Name, fmt.Sprint(l.Workers), fmt.Sprintf("%d of %d", l.Queued, l.Capacity), fmt.Sprint(l.Spilled), fmt.Sprint(l.Done),
			fmt.Sprint(l.Rejected), fmt.Sprint(l.Waited), fmt.Sprint(l.Lost), fmt.Sprint(l.Panics), l.Fault,
		})
	}
	return rows
}

// overloadLines tell how near a program is to its limits, and what it has done about that.
func overloadLines(o *admin.OverloadStats) []string {
	var pressures, did []string
	for _, s := range o.Sources {
		text := fmt.Sprintf("%s %.0f %%", s.Name, 100*s.Pressure)
		if s.Err != "" {
			text = s.Name + " cannot be read"
		}
		pressures = append(pressures, text)
	}
	for _, a := range o.Actions {
		text := fmt.Sprintf("%s %d", a.Name, a.Began)
		if a.Active {
			text += " (now)"
		}
		did = append(did, text)
	}
	grade := o.Grade
	if grade != overload.None.String() && o.Source != "" {
		grade += " (" + o.Source + ")"
	}
	return []string{fmt.Sprintf("OVERLOAD %s: %s  %s", o.Name, grade, strings.Join(pressures, ", ")), "  times: " + strings.Join(did, ", ")}
}

func closeRows(s *admin.Snapshot, samples []admin.Sample) [][]string {
	total, recent := make(map[string]uint64), make(map[string]uint64)
	for _, srv := range s.Servers {
		for reason, n := range srv.Closed {
			total[reason] += n
		}
	}
	for _, m := range samples {
		for reason, n := range m.Closed {
			recent[reason] += n
		}
	}
	rows := [][]string{{"CLOSED", "ALL", "5 MIN"}}
	for _, reason := range slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		if total[a] != total[b] {
			return int(int64(total[b] - total[a]))
		}
		return strings.Compare(a, b)
	}) {
		rows = append(rows, []string{reason, fmt.Sprint(total[reason]), fmt.Sprint(recent[reason])})
	}
	return rows
}

// columns lines up the cells of rows.
func columns(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func amount(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

func sizeText(v float64) string {
	for _, u := range []struct {
		name string
		unit float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v >= u.unit {
			return fmt.Sprintf("%.1f %s", v/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", v)
}

func lagText(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// printable replaces what a terminal would obey, because the text comes from another machine.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// cutTo shortens a line to a number of characters.
func cutTo(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:max(width, 0)])
	}
	return line
}
