package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestResultsQuick measures two parts for a moment, and makes the page and the pictures of them; what was measured before stays.
func TestResultsQuick(t *testing.T) {
	out := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	var said strings.Builder
	for _, only := range []string{"threads", "claims"} {
		said.Reset()
		if err := results(t.Context(), []string{"-quick", "-only", only, "-out", out}, &said); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"these figures mean nothing", "## Targets", "| 1,000,000 armed deadlines | ≤ 64 B each | not measured | not measured |",
		"## 1000 connections", "](results/threads-1.svg)", "](results/claims-6.svg)", "Not measured: echo,", "load average"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("RESULTS.md has no %q", want)
		}
	}
	if !strings.Contains(said.String(), fmt.Sprintf("2 of %d parts", len(parts))) {
		t.Errorf("said %q", said.String())
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	all, err := (&resultsFlags{out: out}).read()
	if err != nil {
		t.Fatal(err)
	}
	checkThreads(t, all["threads"])
	checkClaims(t, all["claims"])
	if err := results(t.Context(), []string{"-render", "-out", out}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(out, "RESULTS.md")); err != nil || string(again) != string(text) {
		t.Errorf("made again the page differs: %v", err)
	}
}

// checkThreads: a thread or a goroutine for each of the 100 connections, and neither with one loop (R244).
func checkThreads(t *testing.T, rep *report) {
	t.Helper()
	const conns = 100
	value := func(row, column string) float64 {
		v, ok := found{"threads": rep}.value("threads", "", row, column)
		if !ok {
			t.Errorf("no %s of %s", column, row)
		}
		return v
	}
	for _, c := range []struct {
		row, column string
		each        bool
	}{
		{"a thread for each", "threads", true}, {"a goroutine for each", "threads", false}, {"eddy", "threads", false},
		{"a thread for each", "goroutines", true}, {"a goroutine for each", "goroutines", true}, {"eddy", "goroutines", false},
	} {
		if v := value(c.row, c.column); c.each && v < conns || !c.each && v > conns/2 {
			t.Errorf("%s: %v %s for %d connections", c.row, v, c.column, conns)
		}
	}
}

// checkClaims: what makes garbage makes an object for each message, and what does not makes none (R237). Nothing is asserted about time.
func checkClaims(t *testing.T, rep *report) {
	t.Helper()
	for _, c := range []struct {
		title, row string
		allocs     float64
		bytes      float64
	}{
		{"A buffer of 4 KiB", "made for it", 1, 4096}, {"A buffer of 4 KiB", "buf.Pool", 0, 0},
		{"A message of 64 KiB", "copied into memory of its own", 1, 65536}, {"A message of 64 KiB", "a view", 0, 0},
		{"handed to another goroutine", "channel of pointers", 1, 64}, {"handed to another goroutine", "ring.SPSC", 0, 0},
		{"gone through", "set", 0, 0}, {"gone through", "array", 0, 0}, {"A file", "sendfile", 0, 0},
	} {
		all := found{"claims": rep}
		allocs, a := all.value("claims", c.title, c.row, "allocations")
		bytes, b := all.value("claims", c.title, c.row, "bytes allocated")
		fast, f := all.value("claims", c.title, c.row, "times as fast")
		if !a || !b || !f || fast <= 0 {
			t.Fatalf("%s, %s: not told", c.title, c.row)
		}
		if c.title == "A file" {
			continue // whose few objects are package os's
		}
		if allocs < c.allocs || bytes < c.bytes || c.allocs == 0 && (allocs > 0.5 || bytes > 64) {
			t.Errorf("%s, %s: %v objects of %v bytes, want %v of %v", c.title, c.row, allocs, bytes, c.allocs, c.bytes)
		}
	}
}

// TestCrowd: both servers of a pair answer, one of them with idle connections beside.
func TestCrowd(t *testing.T) {
	requireGCC(t)
	rep := runIn(t, t.TempDir(), "crowd", "-rounds", "1", "-duration", "50ms", "-warmup", "10ms", "-idle-conns", "50", "-cases", "4x1")
	if len(rep.Tables) != 3 {
		t.Fatalf("%d tables, want one for each server", len(rep.Tables))
	}
	for _, tab := range rep.Tables {
		if len(tab.Rows) != 2 || !strings.HasSuffix(tab.Rows[1].Name, ", 50 idle beside them") || tab.Rows[0].Median <= 0 || tab.Rows[1].Ratio <= 0 {
			t.Errorf("%+v", tab.Rows)
		}
	}
}

// sample is a report with a table of one case: the requests per CPU second of each row by round.
func sample(conns, pipeline, procs int, rows map[string][]float64) *report {
	tab := &table{Conns: conns, Pipeline: pipeline, Procs: procs}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range rows {
			if !yield(name) {
				return
			}
		}
	}) {
		tab.Rows = append(tab.Rows, &row{Name: name, PerCPUSecond: rows[name], P999: 1000})
	}
	return &report{Tables: []*table{tab}}
}

// TestTargets: a target holds in every round, in the median only, in some rounds only, in none, or was not measured; and each says so.
func TestTargets(t *testing.T) {
	all := found{
		"echo": sample(100, 1, 1, map[string][]float64{
			cTuned.Name: {100, 50, 200}, oneLoop: {96, 50, 200}, netEcho.Name: {70, 45, 150}, netpollEcho.Name: {97, 51, 190}, gnetEcho.Name: {97, 51, 201}, nbioEcho.Name: {90, 40, 150},
		}),
		"part-load": {Tables: []*table{
			{Share: 50, Rows: []*row{{Name: oneLoop, P99: 2000, P999: 4000}, {Name: gnetEcho.Name, P99: 2000, P999: 5000}}},
			{Share: 50, Hog: true, Rows: []*row{{Name: oneLoop, P99: 2000, P999: 6000}, {Name: gnetEcho.Name, P99: 2000, P999: 5000}}},
		}},
		"loops": {Tables: []*table{{Conns: 100, Pipeline: 1, Procs: 2, Rows: []*row{
			{Name: eddyTwoLoops, PerCPUSecond: []float64{1, 1, 1}, Rates: []float64{120, 110, 90}}, {Name: gnetTwoLoops, PerCPUSecond: []float64{2, 2, 2}, Rates: []float64{100, 100, 100}},
		}}}},
		"ws-broadcast": {Tables: []*table{{Conns: 5000, Pipeline: 1, Procs: 1, Rows: []*row{{Name: eddyHub, P50: 60e3}, {Name: gwsHub, P50: 50e3}}}}},
		"rpc": {Grids: []*grid{{Title: "Objects", Columns: []column{{"of the server", "%.1f"}}}, {Title: "Calls of epoll_pwait", Columns: []column{{"of the server", "%.2f"}, {"of the client", "%.2f"}},
			Rows: []gridRow{{"eddy, protobuf", []float64{3, 3.5}}}}}},
		"timers": {Grids: []*grid{{Columns: []column{{"bytes each", "%.1f"}, {"tick ns", "%.0f"}}, Rows: []gridRow{{"1000", []float64{50, 10}}, {"1000000", []float64{65, 16}}}}}},
	}
	text := all.targets()
	for _, want := range []string{
		"| echo, 100 connections, 1 in flight on each | ≥ 0.97 × C epoll loop, tuned | 1.00 (0.96–1.00) | yes, in 2 of 3 rounds |",
		"| ≥ 1.00 × gnet v2, one loop | 0.99 (0.98–1.00) | no |",
		"| > the best | 0.99 (0.98–1.05) × cloudwego/netpoll, one poller | no, in 1 of 3 rounds only |",
		"| echo, 100 connections, 16 in flight on each | ≥ 0.97 × C epoll loop, tuned | not measured | not measured |",
		"| the same: p99 and p99.9 | ≤ gnet v2, one loop | 2.00 and 4.00 ms, theirs 2.00 and 5.00 ms | yes |",
		"| the same: p99 and p99.9 | ≤ gnet v2, one loop | 2.00 and 6.00 ms, theirs 2.00 and 5.00 ms | no |",
		"| echo by 2 loops on 2 processors, the client beside, 100 connections: requests a second | ≥ 1.10 × gnet v2, 2 loops | 1.10 (0.90–1.20) | yes, in 2 of 3 rounds |",
		"| the same: time until the last has it | ≤ lxzan/gws, Broadcaster | p50 60.0 ms, theirs 50.0 ms | no |",
		"| the same: time until the last has it | ≤ uWebSockets | not measured | not measured |",
		"| the same: epoll_pwait for each call, server | ≤ 3 | 3.00 | yes |",
		"| the same: epoll_pwait for each call, client | ≤ 3 | 3.50 | no |",
		"| 1,000,000 armed deadlines | ≤ 64 B each | 65.0 B | no |",
		"| independent of the number | 1.60 (16 ns and 10 ns) | no |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestVerdicts: a target holds by its median and in two thirds of the rounds.
func TestVerdicts(t *testing.T) {
	for want, rounds := range map[string][]float64{
		"yes": {1, 1.1, 1.2}, "yes, in 4 of 6 rounds": {0.9, 0.9, 1, 1, 1, 1}, "no, in 3 of 5 rounds only": {0.8, 0.9, 1, 1, 1},
		"no, in 1 of 3 rounds only": {0.8, 0.9, 1}, "no": {0.8, 0.9},
	} {
		if got := (span{mid: median(rounds), low: slices.Min(rounds), high: slices.Max(rounds), rounds: rounds}).verdict(atLeast(1)); got != want {
			t.Errorf("%v: %q, want %q", rounds, got, want)
		}
	}
}

// TestPageTellsTheLoad: a busy machine is named, a part that was not measured too.
func TestPageTellsTheLoad(t *testing.T) {
	busy, quiet := sample(1, 1, 1, nil), sample(1, 1, 1, nil)
	busy.LoadBefore, quiet.LoadBefore = 7.25, 0.5
	text := found{"hop": busy, "echo": quiet}.page()
	if !strings.Contains(text, "busy with other work** before these parts (load average): hop 7.2") || strings.Contains(text, "echo 0.5,") || !strings.Contains(text, "Not measured: part-load, loops, idle,") {
		t.Error(text[:min(len(text), 900)])
	}
	if strings.Contains(text, "mean nothing") {
		t.Error("taken for a trial")
	}
	if text := (found{"hop": quiet, "echo": quiet}).page(); !strings.Contains(text, "Load average before the parts: 0.5 to 0.5") || strings.Contains(text, "busy with other work") {
		t.Errorf("a quiet machine: %s", text)
	}
}

// TestChart: the picture is XML, with every name in it whole, and the bars are as long as their values.
func TestChart(t *testing.T) {
	svg := chart("a < b & \"c\"", "axis", []bar{{"eddy, <one>", 2, 1, 4, "2.00"}, {"other", 1, 1, 1, "1.00"}, {"none", 0, 0, 0, "0.00"}})
	d := xml.NewDecoder(strings.NewReader(svg))
	var texts, widths []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.CharData:
			texts = append(texts, strings.TrimSpace(string(e)))
		case xml.StartElement:
			for _, a := range e.Attr {
				if e.Name.Local == "rect" && a.Name.Local == "width" {
					widths = append(widths, a.Value)
				}
			}
		}
	}
	if !slices.Contains(texts, "eddy, <one>") || !slices.Contains(texts, `a < b & "c"`) || !slices.Contains(texts, "1.00") {
		t.Errorf("%q", texts)
	}
	if want := []string{"860", "190.0", "95.0", "0.0"}; !slices.Equal(widths, want) {
		t.Errorf("widths %v, want %v", widths, want)
	}
}

func TestBadResults(t *testing.T) {
	for _, args := range [][]string{{"-only", "none"}, {"extra"}, {"-fast"}} {
		if err := results(t.Context(), append([]string{"-out", t.TempDir()}, args...), io.Discard); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
	out := t.TempDir()
	if err := os.MkdirAll(filepath.Join(out, "results"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "results", "echo.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := results(t.Context(), []string{"-render", "-out", out}, io.Discard); err == nil || !strings.Contains(err.Error(), "echo.json") {
		t.Errorf("a broken file: %v", err)
	}
	for _, p := range parts {
		for _, line := range []string{p.args, p.quick} {
			if p.name == "desk" {
				continue
			}
			if _, err := parse(p.name, comparisons[p.name], strings.Fields(line)); err != nil {
				t.Errorf("%s %s: %v", p.name, line, err)
			}
		}
	}
	for name := range comparisons {
		if a, b := slices.ContainsFunc(parts, func(p part) bool { return p.name == name }), slices.Contains(apart, name); a == b {
			t.Errorf("%s: a part %t, apart %t", name, a, b)
		}
	}
}
