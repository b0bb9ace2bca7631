package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// serve runs handle for every connection of a fresh loopback listener.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func shortLoad(addr string, conns, size, pipeline int) *load {
	return &load{addr: addr, conns: conns, size: size, pipeline: pipeline, warmup: 10 * time.Millisecond, duration: 100 * time.Millisecond, cpus: []int{0}}
}

// TestLoadCountsEchoes runs the client against an honest echo, also with answers cut into odd pieces and more in flight than one read takes.
func TestLoadCountsEchoes(t *testing.T) {
	addr := serve(t, func(c net.Conn) {
		buf := make([]byte, 37)
		io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, buf)
	})
	for _, c := range []struct{ conns, size, pipeline int }{{1, 64, 1}, {20, 64, 16}, {3, 100, 7}, {2, 32 << 10, 2}} {
		l, marks := shortLoad(addr, c.conns, c.size, c.pipeline), 0
		res, err := l.round(context.Background(), func() error { marks++; return nil })
		for ; err == nil && res.requests == 0 && l.duration < time.Minute; l.duration *= 4 { // a busy machine
			marks = 0
			res, err = l.round(context.Background(), func() error { marks++; return nil })
		}
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if res.requests == 0 || marks != 2 || res.latencies.TotalCount() != res.requests {
			t.Errorf("%+v: %d requests, %d marks, %d latencies", c, res.requests, marks, res.latencies.TotalCount())
		}
		if res.latencies.Max() > int64(10*time.Second) || res.latencies.Min() < 0 {
			t.Errorf("%+v: latencies from %d to %d ns", c, res.latencies.Min(), res.latencies.Max())
		}
	}
}

// TestLoadRefusesBadServers shows that a comparison fails instead of printing figures of a server that does not echo.
func TestLoadRefusesBadServers(t *testing.T) {
	for _, c := range []struct {
		name, want string
		handle     func(net.Conn)
	}{
		{"closes", "closed by the server", func(c net.Conn) { io.ReadFull(c, make([]byte, 10)) }},
		{"wrong byte", "differs from what it should be", func(c net.Conn) {
			buf := make([]byte, 64)
			io.ReadFull(c, buf)
			buf[40]++
			c.Write(buf)
			io.Copy(io.Discard, c)
		}},
	} {
		l := shortLoad(serve(t, c.handle), 2, 64, 1)
		l.duration = time.Minute // it ends at the first mistake
		_, err := l.round(context.Background(), func() error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := shortLoad("127.0.0.1:1", 1, 64, 1).round(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("unreachable: error %v", err)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	addr := serve(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(context.Background())
	l := shortLoad(addr, 1, 64, 1)
	l.duration = time.Hour
	_, err := l.round(ctx, func() error { cancel(); return nil })
	if err != context.Canceled {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestBadCommandLines(t *testing.T) {
	for _, args := range [][]string{
		nil, {"sing"}, {"echo", "-cases", "0x1"}, {"echo", "-cases", "10"}, {"echo", "-cases", "1x1,x"}, {"echo", "-rounds", "0"}, {"echo", "extra"},
		{"echo", "-size", "65536", "-cases", "1x2"}, {"echo", "-cases", "1x2x65536"}, {"echo", "-cases", "1x1x1x1"}, {"idle", "-server-cpus", "-1"}, {"hop", "-procs", "1,0"},
		{"echo", "-before", "no/such/checkout"}, {"rings", "-before", ".."},
	} {
		if err := run(context.Background(), args, io.Discard); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
}

func TestRatiosCompareWithinARound(t *testing.T) {
	tab := newTable(testCase{conns: 100, pipeline: 1}, 1, []contender{{Name: "base"}, {Name: "other"}})
	for round, base := range []float64{100, 50, 200} { // a machine that is slow in the second round
		tab.Rows[0].PerCPUSecond = append(tab.Rows[0].PerCPUSecond, base)
		tab.Rows[1].PerCPUSecond = append(tab.Rows[1].PerCPUSecond, base*(1+float64(round)/10))
	}
	for _, r := range tab.Rows {
		r.elapsed = time.Second
	}
	tab.finish()
	if r := tab.Rows[1]; r.Ratio != 1.1 || r.RatioLow != 1 || r.RatioHigh != 1.2 {
		t.Errorf("ratio %v (%v–%v), want 1.1 (1–1.2)", r.Ratio, r.RatioLow, r.RatioHigh)
	}
	text := (&report{Unit: "requests", Tables: []*table{tab}}).markdown()
	if !strings.Contains(text, "| other | 100 | 1.10 (1.00–1.20) |") {
		t.Errorf("table without the median row:\n%s", text)
	}
}

// requireGCC skips where the C baseline cannot be built.
func requireGCC(t *testing.T) {
	t.Helper()
	requireTool(t, "gcc")
}

// requireTool returns the path of a program; the test is skipped without it, or fails if EDDY_REQUIRE names it.
func requireTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), name) {
		t.Fatalf("%s is required by EDDY_REQUIRE and missing", name)
	}
	t.Skipf("%s is missing", name)
	return ""
}

// longer makes the duration in a command line four times as long where a server answered nothing within it, as happens on a busy machine.
func longer(args []string, err error) bool {
	i := slices.Index(args, "-duration") + 1
	d, bad := time.ParseDuration(args[i])
	if i == 0 || bad != nil || d > 20*time.Second || !strings.Contains(err.Error(), "no request was answered") {
		return false
	}
	args[i] = (4 * d).String()
	return true
}

// runJSON runs a comparison and returns its report. Nothing may be left behind in the temporary directory.
func runJSON(t *testing.T, args ...string) report {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	err := run(context.Background(), append(args, "-json"), &out)
	for err != nil && longer(args, err) {
		out.Reset()
		err = run(context.Background(), append(args, "-json"), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal([]byte(out.String()), &rep); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind in the temporary directory: %v %v", left, err)
	}
	return rep
}

// TestComparison runs the whole comparison once, briefly: it builds the servers and measures them all.
func TestComparison(t *testing.T) {
	requireGCC(t)
	rep := runJSON(t, "echo", "-rounds", "1", "-duration", "200ms", "-warmup", "50ms", "-cases", "1x1,10x16")
	if len(rep.Tables) != 2 || len(rep.Grids) != 1 {
		t.Fatalf("%d tables and %d grids, want one table per case and the allocations", len(rep.Tables), len(rep.Grids))
	}
	for _, tab := range rep.Tables {
		if len(tab.Rows) != 7 {
			t.Errorf("%d connections: %d rows, want 7", tab.Conns, len(tab.Rows))
		}
		for _, r := range tab.Rows {
			if r.Median <= 0 || r.Ratio <= 0 || r.P50 <= 0 || r.P999 < r.P50 || r.PeakRSS <= 0 {
				t.Errorf("%d connections, %s: implausible figures %+v", tab.Conns, r.Name, r)
			}
		}
	}
	for _, r := range rep.Grids[0].Rows {
		if r.Values[0] < 0 || strings.HasPrefix(r.Name, "eddy") && r.Values[0] > 0.5 {
			t.Errorf("%s: %v allocations per request", r.Name, r.Values)
		}
	}
}

// TestComparisonWithBefore compares this checkout with itself: only the engine's servers run, each twice.
func TestComparisonWithBefore(t *testing.T) {
	rep := runJSON(t, "hop", "-before", "..", "-rounds", "2", "-duration", "100ms", "-warmup", "50ms", "-cases", "1x1", "-procs", "1")
	var names []string
	for _, tab := range rep.Tables {
		for _, r := range tab.Rows {
			names = append(names, r.Name)
			if len(r.PerCPUSecond) != 2 || r.Ratio <= 0 {
				t.Errorf("%s: implausible figures %+v", r.Name, r)
			}
		}
	}
	for i, want := range []string{"eddy direct, parked, before", "eddy direct, parked", "eddy hop, parked, before", "eddy hop, parked"} {
		if len(names) != 8 || names[i] != want {
			t.Fatalf("compared were %q", names)
		}
	}
}

// TestOtherComparisons runs those with a load of their own, briefly.
func TestOtherComparisons(t *testing.T) {
	requireGCC(t)
	short := []string{"-rounds", "1", "-duration", "200ms", "-warmup", "50ms"}
	topologies := runJSON(t, append([]string{"topologies", "-cases", "4x1"}, short...)...)
	farewells := runJSON(t, append([]string{"farewells", "-cases", "4x1"}, short...)...)
	for _, r := range slices.Concat(topologies.Tables[0].Rows, farewells.Tables[0].Rows) {
		if r.Median <= 0 || r.P50 <= 0 {
			t.Errorf("topologies, %s: %+v", r.Name, r)
		}
	}
	web := runJSON(t, append([]string{"http", "-wrk", "", "-cases", "4x1,4x4"}, short...)...)
	for _, tab := range web.Tables {
		for _, r := range tab.Rows {
			if r.Median <= 0 || r.P50 <= 0 || len(tab.Rows) != 4 {
				t.Errorf("http, %s: %+v", r.Name, r)
			}
		}
	}
	writes := runJSON(t, append([]string{"writes", "-cases", "2x2"}, short...)...)
	paused := runJSON(t, append([]string{"paused", "-cases", "20x1"}, short...)...)
	idle := runJSON(t, append([]string{"idle", "-idle-conns", "50"}, short...)...)
	for name, rep := range map[string]report{"writes": writes, "paused": paused, "idle": idle} {
		for _, g := range rep.Grids {
			for _, r := range g.Rows {
				if len(r.Values) != len(g.Columns) || len(g.Rows) < 2 {
					t.Errorf("%s, %s: %d values for %d columns, %d rows", name, r.Name, len(r.Values), len(g.Columns), len(g.Rows))
				}
			}
		}
	}
	if v := writes.Grids[0].Rows[1].Values; v[0] <= 0 || v[1] <= 0 || v[2] <= 0 || v[3] <= 0 {
		t.Errorf("writes: implausible figures %v", v)
	}
	if v := paused.Grids[0].Rows[1].Values; v[2] <= 0 || v[3] <= 0 {
		t.Errorf("paused: nothing was refused: %v", v)
	}
}

// TestLargeMessages runs every protocol with large messages, both ways and over each network, briefly.
func TestLargeMessages(t *testing.T) {
	rep := runJSON(t, "flow", "-rounds", "1", "-duration", "200ms", "-warmup", "20ms", "-cases", "16x1x65536,2x1x2097152")
	for _, g := range rep.Grids {
		if len(g.Rows) != 6 {
			t.Errorf("%s: %d rows, want 6", g.Title, len(g.Rows))
		}
		for _, r := range g.Rows {
			if len(r.Values) != len(g.Columns) || slices.Min(r.Values) <= 0 {
				t.Errorf("%s, %s: implausible figures %v", g.Title, r.Name, r.Values)
			}
		}
	}
}

// TestVisitsAreChecked shows that churn fails with the server's mistake and counts whole visits only.
func TestVisitsAreChecked(t *testing.T) {
	short := func(addr string) *churn {
		return &churn{addr: addr, visitors: 3, size: 64, warmup: 20 * time.Millisecond, duration: 100 * time.Millisecond, cpus: []int{0}}
	}
	c, marks := short(serve(t, func(c net.Conn) { io.Copy(c, c) })), 0
	res, err := c.round(context.Background(), func() error { marks++; return nil })
	for ; err == nil && res.requests == 0 && c.duration < time.Minute; c.duration *= 4 { // a busy machine
		marks = 0
		res, err = c.round(context.Background(), func() error { marks++; return nil })
	}
	if err != nil || marks != 2 {
		t.Fatalf("error %v, %d marks", err, marks)
	}
	if res.requests == 0 || res.warmup == 0 || res.latencies.TotalCount() != res.requests || res.elapsed < 100*time.Millisecond {
		t.Errorf("%d visits, %d before, %d latencies in %v", res.requests, res.warmup, res.latencies.TotalCount(), res.elapsed)
	}
	nothing := func() error { return nil }
	_, err = short(serve(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 64)) })).round(context.Background(), nothing)
	if err == nil || !strings.Contains(err.Error(), "0 of 64 bytes") {
		t.Errorf("server that closes: %v", err)
	}
	_, err = short(serve(t, func(c net.Conn) { c.Write(make([]byte, 64)); io.Copy(io.Discard, c) })).round(context.Background(), nothing)
	if err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("server that lies: %v", err)
	}
	chatty := short(serve(t, func(c net.Conn) {
		io.CopyN(c, c, 64)
		io.Copy(io.Discard, c)
		c.Write([]byte{1})
	}))
	chatty.fin = true
	if _, err = chatty.round(context.Background(), nothing); err == nil || !strings.Contains(err.Error(), "1 bytes behind the answer") {
		t.Errorf("server that says more after the FIN: %v", err)
	}
}

func TestParseBench(t *testing.T) {
	got := parseBench(`goos: linux
BenchmarkMove/armed=1000-2         	 4286316	        99.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkMove/armed=1000-2         	 4286316	       101.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkMemory/armed=1000     	       6	  18849313 ns/op	        49.36 B/entry
BenchmarkNot a line
PASS
ok  	github.com/go-eddy/eddy/internal/wheel	2.376s`)
	if len(got) != 2 || got["Move/armed=1000"]["ns/op"] != 100 || got["Memory/armed=1000"]["B/entry"] != 49.36 {
		t.Errorf("parsed %v", got)
	}
}

// TestTimers runs the wheel's benchmarks and finds every figure of the table.
func TestTimers(t *testing.T) {
	rep := runJSON(t, "timers", "-rounds", "1", "-duration", "1ms")
	g := rep.Grids[0]
	if len(g.Rows) != 3 || len(g.Columns) != 5 {
		t.Fatalf("%d rows, %d columns", len(g.Rows), len(g.Columns))
	}
	for _, r := range g.Rows {
		for i, v := range r.Values {
			if v <= 0 {
				t.Errorf("%s armed, %s: %v", r.Name, g.Columns[i].Name, v)
			}
		}
	}
}

func TestGrid(t *testing.T) {
	g := &grid{Title: "Title:", First: "server", Columns: []column{{"cost", "%.1f"}}}
	g.add("base", 50)
	g.add("other", 75)
	g.ratio(0)
	text := (&report{Grids: []*grid{g}}).markdown()
	for _, want := range []string{"\nTitle:\n\n| server | cost | ratio |\n|---|--:|--:|\n", "| base | 50.0 | 1.00 |\n| other | 75.0 | 1.50 |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestRings runs the benchmarks of rings and lanes and the blocked producer, briefly, and finds every figure.
func TestRings(t *testing.T) {
	rep := runJSON(t, "rings", "-rounds", "1", "-duration", "10ms", "-procs", "2")
	if len(rep.Grids) != 9 {
		t.Fatalf("%d tables, want 2, 6 for the round trips and one for the blocked producer", len(rep.Grids))
	}
	for i, g := range rep.Grids {
		for _, r := range g.Rows {
			if len(r.Values) != len(g.Columns) || r.Values[0] <= 0 || r.Values[1] <= 0 {
				t.Errorf("%s, %s: %v", g.Title, r.Name, r.Values)
			}
			if allocs := r.Values[len(r.Values)-1]; i < 8 && allocs != 0 {
				t.Errorf("%s, %s: %v allocations", g.Title, r.Name, allocs)
			}
		}
	}
}

// TestLanesAndPools runs what is measured over sockets, memory and disk, briefly.
func TestLanesAndPools(t *testing.T) {
	for name, args := range map[string][]string{
		"lanes": {"-rounds", "1", "-duration", "200ms", "-warmup", "50ms"},
		"pools": {"-rounds", "1", "-duration", "10ms", "-procs", "1"},
	} {
		rep := runJSON(t, append([]string{name}, args...)...)
		if want := map[string]int{"lanes": 2, "pools": 3}[name]; len(rep.Grids) != want {
			t.Fatalf("%s: %d tables, want %d", name, len(rep.Grids), want)
		}
		for _, g := range rep.Grids {
			for _, r := range g.Rows {
				if len(r.Values) != len(g.Columns) || r.Values[len(r.Values)-2] < 0 || r.Values[1] <= 0 {
					t.Errorf("%s, %s: %v", name, r.Name, r.Values)
				}
			}
		}
	}
}
