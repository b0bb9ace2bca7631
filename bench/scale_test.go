package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestScale measures three small points with one loop and two, and finds every figure of the points, the models and the
// plan. A number of connections beyond the limit of open files is skipped by name.
func TestScale(t *testing.T) {
	rep := runIn(t, t.TempDir(), "scale", "-rounds", "1", "-duration", "100ms", "-warmup", "20ms", "-procs", "1,2", "-cases", "4x1,20x1,40x1,4000000000x1")
	if !strings.Contains(rep.Note, "4000000000 connections were skipped: the limit of open files leaves") || !strings.Contains(rep.Note, "Nobody has run 1000000") {
		t.Errorf("note %q", rep.Note)
	}
	rows := []int{3, 3, 4, 3, 3, 4} // points, seldom, models, plan
	if len(rep.Grids) != len(rows) {
		t.Fatalf("%d tables, want %d", len(rep.Grids), len(rows))
	}
	for i, g := range rep.Grids {
		if len(g.Rows) != rows[i] {
			t.Errorf("%s: %d rows, want %d", g.Title, len(g.Rows), rows[i])
		}
		for _, r := range g.Rows {
			checkScaleRow(t, g, r)
		}
	}
	if _, err := json.Marshal(rep); err != nil { // of what is not finite
		t.Error(err)
	}
}

// checkScaleRow: memory that so few connections hold, or the whole machine, is what it is, and so are errors. All else
// is positive, and an error is that of the columns before it.
func checkScaleRow(t *testing.T, g *grid, r gridRow) {
	t.Helper()
	if len(r.Values) != len(g.Columns) {
		t.Fatalf("%s, %s: %d values for %d columns", g.Title, r.Name, len(r.Values), len(g.Columns))
	}
	for i, v := range r.Values {
		name := g.Columns[i].Name
		switch {
		case strings.HasPrefix(name, "error of"):
			if want := 100 * (r.Values[i-1]/r.Values[i-2] - 1); math.Abs(v-want) > 1e-6 {
				t.Errorf("%s, %s, %s: %v, want %v", g.Title, r.Name, name, v, want)
			}
		case strings.Contains(name, "bytes") || strings.Contains(name, "GiB"):
		case v <= 0:
			t.Errorf("%s, %s, %s: %v", g.Title, r.Name, name, v)
		}
	}
}

// TestScaleWithin: what the limit of open files does not allow is named, and too few numbers for a model are an error.
func TestScaleWithin(t *testing.T) {
	fit, skipped := within([]testCase{{conns: 10}, {conns: 824}, {conns: 825}}, 824)
	if len(fit) != 2 || len(skipped) != 1 || !strings.HasPrefix(skipped[0], "825 connections were skipped") {
		t.Errorf("%v, %q", fit, skipped)
	}
	for _, list := range []string{"10x1", "10x1,4000000000x1"} {
		s, err := parse("scale", comparisons["scale"], []string{"-cases", list})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scale(t.Context(), &binaries{}, s); err == nil || !strings.Contains(err.Error(), "at least 2 numbers of connections") {
			t.Errorf("%s: error %v", list, err)
		}
	}
}

// TestScalePlan computes plans by hand: one that files bound, and one that processors bound.
func TestScalePlan(t *testing.T) {
	c := costs{
		curve: &curve{sparse: []*row{{Median: 1e6 / 60.0}, {Median: 1e6 / 12.0}}}, // 60 µs at a message a minute, 12 at one a second
		models: []model{
			resident:   {memoryTerms, []float64{1 << 20, 1 << 10}},
			peak:       {memoryTerms, []float64{1 << 21, 1 << 11}},
			perMessage: {[]term{constant}, []float64{20}},
		},
	}
	const mib, million = 1.0 / 1024, 1e6 / (1 << 20)
	plan := func(processes, kernel, micros, processors, memory, machines float64) []float64 {
		open := processes*mib + million
		return []float64{processes, open, 2 * open, kernel * million, micros, processors, memory, max(1, machines), max(memory, machines)}
	}
	for _, p := range []struct {
		most, pace int
		kernel     float64 // KiB of slabs
		want       []float64
	}{
		{19000, 0, 8, plan(53, 8, 60, 1, 1, 1)},
		{19000, 1, 8, plan(53, 8, 20, 20, 1, 5)},
		{planned, 0, 8, plan(1, 8, 60, 1, 1, 1)},
		{planned, 1, 8, plan(5, 8, 20, 20, 1, 5)},  // five machines have five processes
		{planned, 0, 40, plan(3, 40, 60, 1, 3, 1)}, // of 40.1 GiB at the peak, 19.2 a machine
	} {
		c.kernel = p.kernel * 1024
		got := c.need(p.most, p.pace)
		if !slices.EqualFunc(got, p.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%d connections a process, pace %d: %v, want %v", p.most, p.pace, got, p.want)
		}
	}
	if v := kernelBytes([]*curve{{points: []point{{conns: 1, slab: 9000}, {conns: 3, slab: 1000}}}}); v != 1800 {
		t.Errorf("slabs of %v B for one end, want the larger number to count nine times", v)
	}
}
