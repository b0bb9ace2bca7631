package measured

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/load"
)

// TestStudent holds the percentile against a printed table.
func TestStudent(t *testing.T) {
	for freedom, want := range map[float64]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 8: 2.306, 10: 2.228, 30: 2.042, 120: 1.980, 100_000: 1.960} {
		if got := studentT(freedom); math.Abs(got-want) > 0.001 {
			t.Errorf("%v degrees of freedom: %.4f, want %.3f", freedom, got, want)
		}
	}
}

func side(name string, perSecond ...float64) Side {
	s := Side{Name: name}
	for _, v := range perSecond {
		r := &Run{Schema: Schema}
		r.PerSecond = v
		r.Latency = Latency{Mean: 2, P50: 1, P90: 2, P99: 1000 / v, P999: 4}
		s.Runs = append(s.Runs, r)
	}
	return s
}

func rowOf(t *testing.T, rows []Row, metric, name string) Row {
	t.Helper()
	for _, r := range rows {
		if r.Metric == metric && r.Side == name {
			return r
		}
	}
	t.Fatalf("no row of %s and %s in %v", metric, name, rows)
	return Row{}
}

// TestCompare: what lies further apart than the runs of a side is a difference, what does not is none, and two runs show nothing.
func TestCompare(t *testing.T) {
	base := side("a", 100, 102, 98, 101, 99)
	rows, err := Compare([]Side{base, side("faster", 121, 119, 120, 122, 118), side("same", 103, 97, 101, 100, 98), side("two", 200, 201)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ metric, side, verdict string }{
		{"requests/s", "faster", Higher}, {"p99 ms", "faster", Lower}, {"p50 ms", "faster", NoDifference},
		{"requests/s", "same", NoDifference}, {"p99 ms", "same", NoDifference}, {"requests/s", "two", TooFew},
	} {
		if r := rowOf(t, rows, c.metric, c.side); r.Verdict != c.verdict {
			t.Errorf("%s of %s: %q, want %q: %+v", c.metric, c.side, r.Verdict, c.verdict, r)
		}
	}
	// By hand: means of logarithms 4.60507 and 4.78739, variances of these means 5.0e-5 and 3.47e-5, 7.7 degrees of freedom, t 2.32.
	if r := rowOf(t, rows, "requests/s", "faster").Ratio; math.Abs(r.Mean-1.2000) > 5e-4 || math.Abs(r.Low-1.1746) > 1e-3 || math.Abs(r.High-1.2259) > 1e-3 {
		t.Errorf("ratio %+v", r)
	}
	if r := rowOf(t, rows, "requests/s", "two").Ratio; r.Low != 0 || r.High != 0 {
		t.Errorf("an interval of two runs: %+v", r)
	}
	if _, err := Compare([]Side{base}); err == nil {
		t.Error("one side alone was compared")
	}
}

// TestCompareWithout: a figure that a run does not have is not compared.
func TestCompareWithout(t *testing.T) {
	rows, err := Compare([]Side{side("a", 1, 1, 1), side("b", 1, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if r := rowOf(t, rows, "requests/s", "b"); r.Verdict != NotMeasured || r.Ratio.Mean != 0 {
		t.Errorf("%+v", r)
	}
}

func result() *load.Result {
	r := &load.Result{Requests: 3, Elapsed: 2 * time.Second, Latencies: load.NewHistogram(), Refusals: load.NewHistogram(), Late: load.NewHistogram(),
		Refused: 1, Errors: 2, Kinds: map[string]int64{load.KindReset: 2}, FirstError: errors.New("two\nlines")}
	for _, d := range []time.Duration{time.Millisecond, time.Millisecond, 30 * time.Millisecond} {
		_ = r.Latencies.RecordValue(int64(d))
	}
	_ = r.Refusals.RecordValue(int64(time.Microsecond))
	_ = r.Late.RecordValue(int64(time.Microsecond))
	return r
}

// TestJSON: what is written is what is read, whole, with every request in a bucket.
func TestJSON(t *testing.T) {
	o := load.Options{Protocol: "rpc", Addr: "127.0.0.1:1", Conns: 2, Size: 3, InFlight: 4, Rate: 5, Warmup: time.Second, Duration: 2 * time.Second}
	text, err := json.Marshal(New("rpc", o, result(), "v1"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "runs.json")
	if err := os.WriteFile(name, bytes.Repeat(append(text, '\n'), 2), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := ReadFile(name)
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	r := runs[1]
	again, err := json.Marshal(r)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("%v\n%s\n%s", err, again, text)
	}
	if r.Mode != "open" || r.PerSecond != 1.5 || r.Latency.P50 < 1 || r.Latency.P50 > 1.001 || r.Latency.Max < 30 || r.Refusal == nil || r.Late == nil || r.FirstError != "two lines" {
		t.Errorf("%+v", r)
	}
	var counted int64
	for _, b := range r.Latency.Buckets {
		counted += b[2]
		if b[0] > b[1] || b[2] == 0 {
			t.Errorf("bucket %v", b)
		}
	}
	if counted != 3 || len(r.Latency.Buckets) != 2 {
		t.Errorf("%d requests in %v", counted, r.Latency.Buckets)
	}
}

// TestBadFiles: each mistake is told with the file and the remedy.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                     "eddy bench … --json",
		"[]":                                   "run 1 is not the JSON",
		`{"schema":"eddy-bench/9"}`:            `schema "eddy-bench/9", this program reads "eddy-bench/1"`,
		`{"schema":"eddy-bench/1"} {"schema":`: "run 2 is not the JSON",
	} {
		name := filepath.Join(dir, "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestDifferences(t *testing.T) {
	a, b := side("a", 1, 1), side("b", 1)
	if d := Differences([]Side{a, b}); len(d) != 0 {
		t.Errorf("alike, and still %v", d)
	}
	b.Runs[0].Conns, a.Runs[1].Rate = 5, 7
	if d := Differences([]Side{a, b}); len(d) != 2 || d[0] != "rate: 0 and 7" || d[1] != "conns: 0 and 5" {
		t.Errorf("%q", d)
	}
}
