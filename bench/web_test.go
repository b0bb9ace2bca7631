package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runIn is runJSON with servers that lie in dir, where the next comparison finds them.
func runIn(t *testing.T, dir, name string, args ...string) *report {
	t.Helper()
	for {
		s, err := parse(name, comparisons[name], args)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := comparisons[name].run(t.Context(), &binaries{dir: dir}, s)
		if err == nil {
			return rep
		}
		if !longer(args, err) {
			t.Fatal(err)
		}
	}
}

// TestWebComparisons runs those of WebSocket, TLS and idle HTTP connections, briefly.
func TestWebComparisons(t *testing.T) {
	short, dir := []string{"-rounds", "1", "-duration", "100ms", "-warmup", "20ms"}, t.TempDir()
	t.Setenv(uWebSocketsVariable, "")
	for name, want := range map[string]struct {
		args         []string
		tables, rows int
		sizes        []int
	}{
		"ws":           {[]string{"-cases", "4x1,2x4,2x1x16384"}, 3, 4, []int{0, 0, 16384}},
		"ws-broadcast": {[]string{"-cases", "10x1"}, 1, 4, []int{0}},
		"tls":          {[]string{"-cases", "2x1"}, 1, 2, []int{0}},
		"handshakes":   {[]string{"-cases", "2x1"}, 1, 2, []int{0}},
		"files-tls":    {[]string{"-cases", "2x1x4096,1x1x300000"}, 2, 2, []int{4096, 300000}},
		"loops":        {[]string{"-cases", "4x1"}, 1, 3, []int{0}},
	} {
		rep := runIn(t, dir, name, append(want.args, short...)...)
		if len(rep.Tables) != want.tables {
			t.Fatalf("%s: %d tables, want %d", name, len(rep.Tables), want.tables)
		}
		for i, tab := range rep.Tables {
			if len(tab.Rows) != want.rows || tab.Size != want.sizes[i] {
				t.Errorf("%s: %d rows of %d B, want %d of %d", name, len(tab.Rows), tab.Size, want.rows, want.sizes[i])
			}
			for _, r := range tab.Rows {
				if r.Median <= 0 || r.Ratio <= 0 || r.P50 <= 0 {
					t.Errorf("%s, %s: implausible figures %+v", name, r.Name, r)
				}
			}
		}
	}
	for name, servers := range map[string]int{"ws-idle": 4, "http-idle": 4, "grpc-idle": 3} {
		rep := runIn(t, dir, name, "-idle-conns", "200", "-duration", "10ms")
		if len(rep.Grids) != 1 || len(rep.Grids[0].Rows) != servers {
			t.Fatalf("%s: %+v, want one table of %d servers", name, rep.Grids, servers)
		}
		for _, r := range rep.Grids[0].Rows {
			// So few of them can hide in memory that was there before; those of goroutines cannot.
			if len(r.Values) != 2 || !strings.HasPrefix(r.Name, "eddy") && r.Values[1] <= 0 {
				t.Errorf("%s, %s: %v", name, r.Name, r.Values)
			}
		}
	}
}

// TestWrk runs the http comparison with wrk where there is one.
func TestWrk(t *testing.T) {
	program := requireTool(t, "wrk")
	rep := runIn(t, t.TempDir(), "http", "-wrk", program, "-rounds", "1", "-duration", "1s", "-warmup", "0s", "-cases", "4x3")
	if want := "Load: " + wrkVersion(program) + ". "; !strings.HasPrefix(rep.Note, want) || !strings.HasPrefix(want, "Load: wrk ") {
		t.Errorf("note %q, want %q", rep.Note, want)
	}
	for _, r := range rep.Tables[0].Rows {
		if r.Median <= 0 || r.PerSecond <= 0 || r.P50 <= 0 || r.P999 < r.P50 {
			t.Errorf("%s: implausible figures %+v", r.Name, r)
		}
	}
}

// TestUWebSockets: without its source the note says that it was not measured, and a folder without the source is named.
func TestUWebSockets(t *testing.T) {
	t.Setenv(uWebSocketsVariable, "")
	all, note, err := withUWebSockets(wsServers, "echo")
	if err != nil || len(all) != len(wsServers) || !strings.Contains(note, uWebSocketsVariable+" names no folder") {
		t.Errorf("%d contenders, note %q, %v", len(all), note, err)
	}
	dir := t.TempDir()
	t.Setenv(uWebSocketsVariable, dir)
	if _, _, err := withUWebSockets(wsServers, "echo"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "App.h"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	all, note, err = withUWebSockets(wsServers, "echo")
	if err != nil || len(all) != len(wsServers)+1 || all[len(wsServers)].Name != uWebSocketsName || !strings.HasPrefix(note, uWebSocketsName) {
		t.Errorf("%d contenders, note %q, %v", len(all), note, err)
	}
}

// TestWaits counts the calls of epoll_pwait where there is strace.
func TestWaits(t *testing.T) {
	requireTool(t, "strace")
	s, err := parse("rpc", comparisons["rpc"], []string{"-duration", "100ms", "-warmup", "20ms"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := waitsOf(t.Context(), &binaries{dir: t.TempDir()}, s, []contender{{Name: "net/rpc, gob", binary: "netrpc"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Rows) != 1 || g.Rows[0].Values[0] <= 0 || g.Rows[0].Values[1] <= 0 {
		t.Errorf("%+v", g.Rows)
	}
}

func TestStraceTotal(t *testing.T) {
	const head = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n"
	n, err := straceTotal(head + "100.00    0.000123           1       123           epoll_pwait\n------ ----------- ----------- --------- --------- ----------------\n100.00    0.000123           1       123         5 total\n")
	if n != 123 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := straceTotal(""); n != 0 || err != nil {
		t.Errorf("no call at all: %d, %v", n, err)
	}
	if _, err := straceTotal(head); err == nil {
		t.Error("no total: accepted")
	}
}

func TestParseWrk(t *testing.T) {
	res, err := parseWrk("Running 1s test @ http://127.0.0.1:1/\n  4 requests in 1.00s, 1KB read\ntotals 4 1500000 0\nlatency 20 3\nlatency 4000 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if res.requests != 4 || res.elapsed != 1500*time.Millisecond || res.latencies.TotalCount() != 4 {
		t.Errorf("%d requests in %v, %d latencies", res.requests, res.elapsed, res.latencies.TotalCount())
	}
	if p50, most := res.latencies.ValueAtPercentile(50), res.latencies.Max(); p50 < 20000 || p50 > 21000 || most < 4e6 || most > 4.1e6 {
		t.Errorf("median %d ns, most %d ns, want 20 µs and 4 ms", p50, most)
	}
	for out, want := range map[string]string{
		"":                               "not told its totals",
		"latency 20 3\n":                 "not told its totals",
		"totals 4 1500000 2\n":           "2 failures beside 4 answers",
		"totals 4\n":                     "totals 4",
		"totals 1 1 0\nlatency twenty\n": "latency twenty",
	} {
		if _, err := parseWrk(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", out, err, want)
		}
	}
}
