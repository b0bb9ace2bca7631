package main

import (
	"flag"
	"strings"
	"testing"
)

// TestFloods measures two floods briefly.
func TestFloods(t *testing.T) {
	rep := runIn(t, t.TempDir(), "floods", "-only", noFlood+",ping", "-rounds", "1", "-duration", "100ms", "-warmup", "50ms")
	if len(rep.Grids) != len(flooded) {
		t.Fatalf("%d tables, want %d", len(rep.Grids), len(flooded))
	}
	for _, g := range rep.Grids {
		if len(g.Rows) != 2 || g.Rows[0].Name != noFlood || g.Rows[1].Name != "ping" {
			t.Fatalf("%s: %+v", g.Title, g.Rows)
		}
		calm, flood := g.Rows[0].Values, g.Rows[1].Values
		if sent, conns := calm[5], calm[6]; sent != 0 || conns != 0 {
			t.Errorf("%s: %v pieces without a flood", g.Title, sent)
		}
		if sent, conns := flood[5], flood[6]; sent == 0 || conns == 0 || flood[0] <= 0 || flood[ratioColumn] <= 0 || flood[peakColumn] <= 0 {
			t.Errorf("%s: implausible figures %v", g.Title, flood)
		}
	}
}

var floodGate = flag.Bool("floods", false, "run TestFloodsHarmNobody, which measures for ten minutes")

// TestFloodsHarmNobody: beside each flood on the one loop of the server, p99 of the others stays within twice what it was, none
// of their requests fails, and the server's memory stays flat. A machine with other things to do gets three tries.
func TestFloodsHarmNobody(t *testing.T) {
	if !*floodGate {
		t.Skip("measures for ten minutes: run it with -floods, as scripts/long does")
	}
	const most, mostPeak = 2, 32 // times, MiB
	dir := t.TempDir()
	rep := runIn(t, dir, "floods", "-duration", "1s")
	t.Log(rep.markdown())
	for i, g := range rep.Grids {
		if strings.HasPrefix(g.Title, "net/http") {
			continue
		}
		for _, row := range g.Rows {
			v := row.Values
			for try := 2; v[ratioColumn] > most && try <= 3; try++ {
				again := runIn(t, dir, "floods", "-duration", "1s", "-only", row.Name)
				v = again.Grids[i].Rows[0].Values
			}
			t.Logf("%s %s: p99 %.2f times, %.0f %% of a processor, peak %.1f MiB", g.Title, row.Name, v[ratioColumn], v[4], v[peakColumn])
			if v[ratioColumn] > most || v[peakColumn] > mostPeak {
				t.Errorf("%s %s: p99 is %.2f times what it was, peak %.1f MiB; want %d times and %d MiB at most", g.Title, row.Name, v[ratioColumn], v[peakColumn], most, mostPeak)
			}
		}
	}
}
