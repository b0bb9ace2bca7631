package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// report is the outcome of one comparison.
type report struct {
	Command  string      `json:"command"`
	Machine  environment `json:"machine"`
	Unit     string      `json:"unit,omitempty"` // what the tables count, plural
	Size     int         `json:"size,omitempty"`
	Rounds   int         `json:"rounds,omitempty"`
	Duration string      `json:"duration,omitempty"`
	Note     string      `json:"note,omitempty"`
	Tables   []*table    `json:"tables,omitempty"`
	Grids    []*grid     `json:"grids,omitempty"`

	// Set only in results:
	Started    time.Time `json:"started,omitzero"`
	Took       string    `json:"took,omitempty"`
	LoadBefore float64   `json:"load_before,omitempty"` // of the machine, the average of a minute
	LoadAfter  float64   `json:"load_after,omitempty"`
	Quick      bool      `json:"quick,omitempty"`
}

// environment names what the figures depend on.
type environment struct {
	Processor string `json:"processor"`
	CPUs      int    `json:"cpus"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	GCC       string `json:"gcc"`
	Revision  string `json:"revision"`
}

// table compares the contenders in one case. Ratios are to the first row.
type table struct {
	Conns    int    `json:"conns"`
	Pipeline int    `json:"pipeline"`
	Size     int    `json:"size,omitempty"` // of requests, 0 for that of the report
	Procs    int    `json:"gomaxprocs"`
	Rate     int    `json:"rate,omitempty"`  // requests a second of an open loop
	Share    int    `json:"share,omitempty"` // percentage of the capacity that Rate is
	Hog      bool   `json:"hog,omitempty"`   // beside a process that wants the server's processor
	Rows     []*row `json:"rows"`
}

func (t *table) testCase() testCase {
	return testCase{conns: t.Conns, pipeline: t.Pipeline, size: t.Size, rate: t.Rate, share: t.Share, hog: t.Hog}
}

// row is one contender. finish sets the figures over all rounds.
type row struct {
	Name          string    `json:"name"`
	PerCPUSecond  []float64 `json:"requests_per_cpu_second_by_round"`
	Median        float64   `json:"requests_per_cpu_second"`
	Ratio         float64   `json:"ratio"`
	RatioLow      float64   `json:"ratio_low"`
	RatioHigh     float64   `json:"ratio_high"`
	PerSecond     float64   `json:"requests_per_second"`
	Rates         []float64 `json:"requests_per_second_by_round"`
	P50           float64   `json:"p50_us"`
	P99           float64   `json:"p99_us"`
	P999          float64   `json:"p99.9_us"`
	PeakRSS       int64     `json:"peak_rss_bytes"`
	requests      int64
	total         int64 // requests, with those of the warm-ups
	clientMallocs uint64
	elapsed, used time.Duration
	latencies     *hdrhistogram.Histogram
}

func newTable(c testCase, procs int, contenders []contender) *table {
	t := &table{Conns: c.conns, Pipeline: c.pipeline, Size: c.size, Procs: procs, Rate: c.rate, Share: c.share, Hog: c.hog}
	for _, c := range contenders {
		t.Rows = append(t.Rows, &row{Name: c.Name, latencies: newHistogram()})
	}
	return t
}

// add adds one round.
func (r *row) add(res *result, used time.Duration, peak int64) {
	r.requests += res.requests
	r.total += res.requests + res.warmup
	r.elapsed += res.elapsed
	r.used += used
	r.clientMallocs += res.mallocs
	r.PerCPUSecond = append(r.PerCPUSecond, float64(res.requests)/used.Seconds())
	r.Rates = append(r.Rates, float64(res.requests)/res.elapsed.Seconds())
	r.latencies.Merge(res.latencies)
	r.PeakRSS = max(r.PeakRSS, peak)
}

// finish computes medians over the rounds. A ratio compares with the first row in the same round, so that a slow minute
// of the machine cancels out.
func (t *table) finish() {
	base := t.Rows[0].PerCPUSecond
	for _, r := range t.Rows {
		ratios := make([]float64, len(base))
		for i := range base {
			ratios[i] = r.PerCPUSecond[i] / base[i]
		}
		r.Median, r.Ratio = median(r.PerCPUSecond), median(ratios)
		r.RatioLow, r.RatioHigh = slices.Min(ratios), slices.Max(ratios)
		r.PerSecond = float64(r.requests) / r.elapsed.Seconds()
		r.P50, r.P99, r.P999 = r.micros(50), r.micros(99), r.micros(99.9)
	}
}

func (r *row) micros(percentile float64) float64 {
	return float64(r.latencies.ValueAtPercentile(percentile)) / 1e3
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

// markdown renders the report for bench/README.md.
func (r *report) markdown() string {
	var w strings.Builder
	fmt.Fprintf(&w, "`%s`\n\n%s, %d processors; %s; %s; %s; revision %s.\n", r.Command, r.Machine.Processor, r.Machine.CPUs,
		r.Machine.Kernel, r.Machine.Go, r.Machine.GCC, r.Machine.Revision)
	if len(r.Tables) > 0 {
		r.writeTables(&w)
	}
	if r.Note != "" {
		fmt.Fprintf(&w, "%s\n", r.Note)
	}
	for _, g := range r.Grids {
		g.write(&w)
	}
	return w.String()
}

func (r *report) writeTables(w *strings.Builder) {
	fmt.Fprintf(w, "%d B, %d rounds of %s each, interleaved. Median over the rounds; ratio to the first row within a round (lowest–highest).\n",
		r.Size, r.Rounds, r.Duration)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s, GOMAXPROCS=%d\n\n", t.testCase(), t.Procs)
		fmt.Fprintf(w, "| server | %s / CPU s | ratio | %s / s | p50 µs | p99 µs | p99.9 µs | peak RSS MiB |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", r.Unit, r.Unit)
		for _, row := range t.Rows {
			fmt.Fprintf(w, "| %s | %.0f | %.2f (%.2f–%.2f) | %.0f | %.0f | %.0f | %.0f | %.1f |\n", row.Name, row.Median, row.Ratio,
				row.RatioLow, row.RatioHigh, row.PerSecond, row.P50, row.P99, row.P999, float64(row.PeakRSS)/(1<<20))
		}
	}
}

// machine describes where the comparison ran.
func machine() environment {
	e := environment{CPUs: runtime.NumCPU(), Go: runtime.Version(), GCC: firstLine("gcc", "--version"), Revision: firstLine("git", "describe", "--always", "--dirty")}
	e.Processor = processor()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return e
}

// firstLine runs a command and returns the first line it prints, "unknown" if it fails.
func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil || line == "" {
		return "unknown"
	}
	return line
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
