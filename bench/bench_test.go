package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
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
		marks := 0
		res, err := shortLoad(addr, c.conns, c.size, c.pipeline).round(context.Background(), func() error { marks++; return nil })
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
		{"wrong byte", "differs from what was sent", func(c net.Conn) {
			buf := make([]byte, 64)
			io.ReadFull(c, buf)
			buf[40]++
			c.Write(buf)
			io.Copy(io.Discard, c)
		}},
	} {
		_, err := shortLoad(serve(t, c.handle), 2, 64, 1).round(context.Background(), func() error { return nil })
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
		nil, {"sing"}, {"echo", "-pipeline", "0"}, {"echo", "-pipeline", "x"}, {"echo", "-rounds", "0"}, {"echo", "extra"},
		{"echo", "-size", "65536", "-pipeline", "2"}, {"idle", "-server-cpus", "-1"},
	} {
		if err := run(context.Background(), args, io.Discard); err == nil {
			t.Errorf("%v: accepted", args)
		}
	}
}

func TestRatiosCompareWithinARound(t *testing.T) {
	tab := newTable(1, []contender{{Name: "base"}, {Name: "other"}})
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
	text := (&report{Tables: []*table{tab}}).markdown()
	if !strings.Contains(text, "| other | 100 | 1.10 (1.00–1.20) |") {
		t.Errorf("table without the median row:\n%s", text)
	}
}

// TestComparison runs the whole comparison once, briefly: it builds the servers, measures all three and leaves nothing behind.
func TestComparison(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		if strings.Contains(os.Getenv("EDDY_REQUIRE"), "gcc") {
			t.Fatal("gcc is required by EDDY_REQUIRE and missing")
		}
		t.Skip("gcc is missing: the C baseline cannot be built")
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := []string{"echo", "-rounds", "1", "-duration", "300ms", "-warmup", "50ms", "-conns", "10", "-json"}
	if err := run(context.Background(), args, &out); err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal([]byte(out.String()), &rep); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if len(rep.Tables) != 2 {
		t.Fatalf("%d tables, want pipeline 1 and 16", len(rep.Tables))
	}
	for _, tab := range rep.Tables {
		if len(tab.Rows) != 3 {
			t.Errorf("pipeline %d: %d rows, want 3", tab.Pipeline, len(tab.Rows))
		}
		for _, r := range tab.Rows {
			if r.Median <= 0 || r.Ratio <= 0 || r.P50 <= 0 || r.P999 < r.P50 || r.PeakRSS <= 0 {
				t.Errorf("pipeline %d, %s: implausible figures %+v", tab.Pipeline, r.Name, r)
			}
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind in the temporary directory: %v %v", left, err)
	}
}
