package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is a target of the project, or one of its conditions: a row of the table of targets.
type goal struct{ what, wanted, measured, holds string }

// targets returns the table of targets, filled in from the reports.
func (all found) targets() string {
	var w strings.Builder
	w.WriteString("| what | target | measured | holds |\n|---|---|---|---|\n")
	for _, list := range []func() []goal{all.echoTargets, all.partLoadTargets, all.hopTargets, all.memoryTargets, all.loadTargets, all.httpTargets, all.webSocketTargets, all.visitTargets, all.rpcTargets, all.ringTargets, all.deskTargets} {
		for _, t := range list() {
			fmt.Fprintf(&w, "| %s | %s | %s | %s |\n", t.what, t.wanted, t.measured, t.holds)
		}
	}
	return w.String()
}

const notMeasured = "not measured"

// span is a figure over the rounds: its median, its range, and itself in each round if that is known.
type span struct {
	mid, low, high float64
	rounds         []float64
}

func (s span) String() string {
	if s.low == s.high {
		return fmt.Sprintf("%.2f", s.mid)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.mid, s.low, s.high)
}

// verdict says whether a figure meets its target: in the median and in at least two thirds of the rounds.
func (s span) verdict(ok func(float64) bool) string {
	if len(s.rounds) == 0 {
		s.rounds = []float64{s.low, s.mid, s.high}
	}
	good := 0
	for _, v := range s.rounds {
		if ok(v) {
			good++
		}
	}
	in := fmt.Sprintf("in %d of %d rounds", good, len(s.rounds))
	switch {
	case ok(s.mid) && good == len(s.rounds):
		return "yes"
	case ok(s.mid) && 3*good >= 2*len(s.rounds):
		return "yes, " + in
	case good > 0:
		return "no, " + in + " only"
	}
	return "no"
}

// one is a figure that was measured once.
func one(v float64) span { return span{mid: v, low: v, high: v, rounds: []float64{v}} }

func atLeast(limit float64) func(float64) bool { return func(v float64) bool { return v >= limit } }
func atMost(limit float64) func(float64) bool  { return func(v float64) bool { return v <= limit } }

// table finds the table of a case.
func (all found) table(part string, conns, pipeline, size, procs int) *table {
	rep := all[part]
	if rep == nil {
		return nil
	}
	i := slices.IndexFunc(rep.Tables, func(t *table) bool {
		return t.Conns == conns && t.Pipeline == pipeline && t.Size == size && t.Procs == procs
	})
	if i < 0 {
		return nil
	}
	return rep.Tables[i]
}

func (t *table) row(name string) *row {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Rows, func(r *row) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

// perCPUSecond and rates are the figures of a row, by round, that ratio can compare.
func perCPUSecond(r *row) []float64 { return r.PerCPUSecond }
func rates(r *row) []float64        { return r.Rates }

// ratio compares a figure of two rows within each round.
func (t *table) ratio(name, base string, figure func(*row) []float64) (s span, ok bool) {
	ours, theirs := t.row(name), t.row(base)
	if ours == nil || theirs == nil {
		return span{}, false
	}
	a, b := figure(ours), figure(theirs)
	if len(a) == 0 || len(a) != len(b) {
		return span{}, false
	}
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return span{median(all), slices.Min(all), slices.Max(all), all}, true
}

// more returns the goal that the requests per processor second of a row are at least limit times those of another.
func more(what string, limit float64, t *table, name, base string) goal {
	return moreOf(perCPUSecond, what, limit, t, name, base)
}

// moreOf returns the goal that a figure of a row is at least limit times that of another.
func moreOf(figure func(*row) []float64, what string, limit float64, t *table, name, base string) goal {
	x := goal{what, fmt.Sprintf("≥ %.2f × %s", limit, base), notMeasured, notMeasured}
	if s, ok := t.ratio(name, base, figure); ok {
		x.measured, x.holds = s.String(), s.verdict(atLeast(limit))
	}
	return x
}

// value finds a cell in the grids of a part. The first grid whose title contains title counts, with the row that begins
// with row and the column of that heading.
func (all found) value(part, title, row, column string) (float64, bool) {
	rep := all[part]
	if rep == nil {
		return 0, false
	}
	for _, g := range rep.Grids {
		at := g.column(column)
		if !strings.Contains(g.Title, title) || at < 0 {
			continue
		}
		for _, r := range g.Rows {
			if strings.HasPrefix(r.Name, row) {
				return r.Values[at], true
			}
		}
	}
	return 0, false
}

// cell returns the goal of a cell.
func (all found) cell(what, wanted, format string, ok func(float64) bool, part, title, row, column string) goal {
	x := goal{what, wanted, notMeasured, notMeasured}
	if v, there := all.value(part, title, row, column); there && !math.IsNaN(v) {
		x.measured, x.holds = fmt.Sprintf(format, v), one(v).verdict(ok)
	}
	return x
}

const oneLoop = "eddy, one loop"

func (all found) memoryTargets() []goal {
	const resident, before, unforced = "resident bytes per connection", "before a garbage collection", "resident, before the collection"
	return []goal{
		all.cell("idle connection, a handler object for each, no forced collection", "≤ 420 B", "%.0f B", atMost(420), "idle", "", "eddy, a handler object", unforced),
		all.cell("idle connection, 3 handlers, idle deadline", "≤ 600 B", "%.0f B", atMost(600), "idle", "", "eddy, 3 handlers, idle", resident),
		all.cell("idle WebSocket, after a garbage collection", "≤ 1.2 KB", "%.0f B", atMost(1229), "ws-idle", "", oneLoop, resident),
		all.cell("the same, before it", "≤ 1.2 KB", "%.0f B", atMost(1229), "ws-idle", "", oneLoop, before),
		all.cell("idle connection of gRPC, after a garbage collection", "≤ 4 KiB", "%.0f B", atMost(4096), "grpc-idle", "", "eddy", resident),
		all.cell("idle TLS, after a garbage collection", "≤ 5 KB", "%.0f B", atMost(5120), "idle", "", "eddy, 3 handlers and tlsx", resident),
		all.cell("the same, before it", "≤ 5 KB", "%.0f B", atMost(5120), "idle", "", "eddy, 3 handlers and tlsx", unforced),
		all.cell("slow readers that keep sending: memory, taken as at most 1 KiB each", "flat", "%.0f B", atMost(1024), "paused", "", "eddy", resident),
		all.cell("the same: processor time, taken as at most 0.5 %", "≈ 0", "%.3f %%", atMost(0.5), "paused", "", "eddy", "CPU % of the server"),
		all.cell("1,000,000 armed deadlines", "≤ 64 B each", "%.1f B", atMost(64), "timers", "", "1000000", "bytes each"),
		all.tick(),
	}
}

// tick returns the goal that compares the cost of a tick with a million deadlines with that of a thousand.
func (all found) tick() goal {
	x := goal{"the same: a tick, taken as at most 1.5 × that of 1000", "independent of the number", notMeasured, notMeasured}
	many, a := all.value("timers", "", "1000000", "tick ns")
	few, b := all.value("timers", "", "1000", "tick ns")
	if a && b && few > 0 {
		v := many / few
		x.measured, x.holds = fmt.Sprintf("%.2f (%.0f ns and %.0f ns)", v, many, few), one(v).verdict(atMost(1.5))
	}
	return x
}

func (all found) loadTargets() []goal {
	stuck := goal{"1 % of handlers stuck 100 ms in a pool: p99 of the others", "≤ 1.2 × undisturbed", notMeasured, notMeasured}
	mid, a := all.value("lanes", "stuck", "a pool", "ratio of p99")
	low, b := all.value("lanes", "stuck", "a pool", "lowest")
	high, c := all.value("lanes", "stuck", "a pool", "highest")
	if a && b && c {
		s := span{mid: mid, low: low, high: high}
		stuck.measured, stuck.holds = s.String(), s.verdict(atMost(1.2))
	}
	good := goal{"overload at 2 × capacity: goodput", "≥ 90 % of peak", notMeasured, notMeasured}
	peak, a := all.value("rpc-models", "without a queue", "as many callers", "answered / s")
	twice, b := all.value("rpc-models", "without a queue", "constant rate, 2 ×", "answered / s")
	if a && b && peak > 0 {
		v := 100 * twice / peak
		good.measured, good.holds = fmt.Sprintf("%.0f %%", v), one(v).verdict(atLeast(90))
	}
	return []goal{stuck, good,
		all.cell("the same: every refused request answered busy, the slowest", "≤ 50 ms", "%.1f ms", atMost(50), "rpc-models", "without a queue", "constant rate, 2 ×", "refused max ms")}
}

func (all found) ringTargets() (list []goal) {
	for _, procs := range []string{"1", "2"} {
		list = append(list, all.faster("SPSC ring in batches, GOMAXPROCS="+procs, "≥ 10 × a buffered channel", 10, "One producer, one consumer, GOMAXPROCS="+procs, "SPSC, in batches"))
	}
	for _, way := range []string{"in batches", "one at a time"} {
		for _, workers := range []string{"1 worker", "2 workers", "4 workers"} {
			list = append(list, all.faster("Demux and Mux "+way+", "+workers+", GOMAXPROCS=2", "≥ 3 × channels", 3, "To "+workers+" and back, GOMAXPROCS=2", "Demux and Mux, "+way))
		}
	}
	return list
}

// faster returns the goal of a row of the rings.
func (all found) faster(what, wanted string, limit float64, title, row string) goal {
	x := goal{what, wanted, notMeasured, notMeasured}
	mid, a := all.value("rings", title, row, "times as fast")
	low, b := all.value("rings", title, row, "lowest")
	high, c := all.value("rings", title, row, "highest")
	if a && b && c {
		s := span{mid: mid, low: low, high: high}
		x.measured, x.holds = s.String(), s.verdict(atLeast(limit))
	}
	return x
}

func (all found) deskTargets() []goal {
	const measured = "measured"
	return []goal{
		all.cell("Desk: durable messages per second, full sync", "≥ 2000", "%.0f", atLeast(2000), "desk", "", "durable messages", measured),
		all.cell("Desk: send to acknowledgement, p99 at 500 messages/s", "≤ 25 ms", "%.1f ms", atMost(25), "desk", "", "acknowledgement p99", measured),
		all.cell("Desk: send to peer, p99 at 500 messages/s", "≤ 50 ms", "%.1f ms", atMost(50), "desk", "", "peer p99", measured),
		all.cell("Desk: server's memory per idle visitor", "≤ 10 KB", "%.0f B", atMost(10240), "desk", "", "bytes per idle visitor", measured),
		all.cell("Desk: p99 of acknowledgements while every agent operation hangs", "≤ + 5 ms", "%+.1f ms", atMost(5), "desk", "", "p99 with hanging operations", measured),
		all.cell("Desk: all visitors resumed after a restart (2000 here; the target's 10,000: bench/desk)", "≤ 60 s", "%.1f s", atMost(60), "desk", "", "seconds until all have resumed", measured),
		all.cell("Desk: messages lost or doubled by it", "0", "%.0f", atMost(0), "desk", "", "messages lost or doubled", measured),
	}
}
