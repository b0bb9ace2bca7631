// Package measured holds what "eddy bench" has measured, in its JSON form, and compares several runs.
package measured

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/go-eddy/eddy/cmd/eddy/internal/load"
)

// Schema names the form of the JSON (docs/bench.md). Fields may be added to it; any other change needs a new number.
const Schema = "eddy-bench/1"

// A Run is one measurement. Times are in milliseconds if their names say so, else in seconds.
type Run struct {
	Schema   string    `json:"schema"`
	Scenario string    `json:"scenario"` // a protocol, or churn, slow-reader, slowloris
	Protocol string    `json:"protocol"`
	Addr     string    `json:"addr"`
	TLS      bool      `json:"tls"`
	Mode     string    `json:"mode"` // "closed": requests in flight; "open": a constant rate
	Conns    int       `json:"conns"`
	Size     int       `json:"size"`
	InFlight int       `json:"inflight"`
	Rate     int       `json:"rate,omitempty"` // asked for, per second
	Warmup   float64   `json:"warmup_s"`
	Duration float64   `json:"duration_s"` // asked for
	Started  time.Time `json:"started"`
	Machine  Machine   `json:"machine"`

	Outcome
	Undisturbed *Outcome `json:"undisturbed,omitempty"` // of slow-reader and slowloris: before the attack; Outcome is during the attack
	Attack      *Attack  `json:"attack,omitempty"`
}

// Attack is what became of the connections that misbehave.
type Attack struct {
	Attackers int              `json:"attackers"`
	Every     float64          `json:"every_s,omitempty"`
	Opened    int64            `json:"opened"`
	Rejected  int64            `json:"rejected"`
	Closed    int64            `json:"closed"` // by the server
	Ends      map[string]int64 `json:"closed_by_kind"`
	Lived     Latency          `json:"closed_after"` // of those
	Paused    int64            `json:"paused"`       // open at the end; the server had taken nothing for a second
	Taking    int64            `json:"open"`         // open at the end; slow-reader: the server takes what is sent
	Sent      int64            `json:"bytes_sent"`
}

// Outcome is the result of the requests of a measurement.
type Outcome struct {
	Seconds   float64 `json:"seconds"` // measured
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
	Latency   Latency `json:"latency"`

	Refused    int64    `json:"refused,omitempty"` // answers that said that there was no room
	Refusal    *Latency `json:"refusal_latency,omitempty"`
	Unanswered int64    `json:"unanswered,omitempty"` // at the end, with their age among the latencies
	Late       *Latency `json:"sent_late,omitempty"`  // of mode open: how long after it was due a request was sent

	Errors     int64            `json:"errors"`
	Kinds      map[string]int64 `json:"errors_by_kind,omitempty"`
	FirstError string           `json:"first_error,omitempty"`
}

// Machine is the machine that made the load.
type Machine struct {
	Eddy string `json:"eddy"`
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
}

// A Latency is a distribution. Its percentiles are to three digits.
type Latency struct {
	Count   int64      `json:"count"`
	Mean    float64    `json:"mean_ms"`
	P50     float64    `json:"p50_ms"`
	P90     float64    `json:"p90_ms"`
	P99     float64    `json:"p99_ms"`
	P999    float64    `json:"p99.9_ms"`
	Max     float64    `json:"max_ms"`
	Buckets [][3]int64 `json:"buckets,omitempty"` // from and to in nanoseconds, both inclusive, and how many; without the empty ones
}

// NewLatency takes the figures out of a histogram of nanoseconds.
func NewLatency(h *hdrhistogram.Histogram) Latency {
	ms := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e6 }
	l := Latency{Count: h.TotalCount(), P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1e6}
	if l.Count == 0 {
		return l
	}
	l.Mean = h.Mean() / 1e6
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			l.Buckets = append(l.Buckets, [3]int64{b.From, b.To, b.Count})
		}
	}
	return l
}

// New returns the Run of a load with these options.
func New(scenario string, o load.Options, r *load.Result, eddy string) *Run {
	run := &Run{
		Schema: Schema, Scenario: scenario, Protocol: o.Protocol, Addr: o.Addr, TLS: o.TLS, Mode: "closed", Conns: o.Conns, Size: o.Size, InFlight: o.InFlight,
		Rate: o.Rate, Warmup: o.Warmup.Seconds(), Duration: o.Duration.Seconds(), Started: time.Now().Add(-r.Elapsed).UTC().Truncate(time.Millisecond),
		Machine: Machine{Eddy: eddy, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
		Outcome: NewOutcome(o, r),
	}
	if o.Rate > 0 {
		run.Mode = "open"
	}
	return run
}

// NewOutcome returns the Outcome of one result.
func NewOutcome(o load.Options, r *load.Result) Outcome {
	out := Outcome{
		Seconds: r.Elapsed.Seconds(), Requests: r.Requests, PerSecond: r.PerSecond(), Latency: NewLatency(r.Latencies),
		Refused: r.Refused, Unanswered: r.Unanswered, Errors: r.Errors, Kinds: r.Kinds,
	}
	if r.Refused > 0 {
		l := NewLatency(r.Refusals)
		out.Refusal = &l
	}
	if o.Rate > 0 && r.Late.TotalCount() > 0 {
		l := NewLatency(r.Late)
		l.Buckets = nil // the percentiles are enough
		out.Late = &l
	}
	if r.FirstError != nil {
		out.FirstError = strings.Join(strings.Fields(r.FirstError.Error()), " ")
	}
	return out
}

// maxFile bounds a file of runs.
const maxFile = 256 << 20

// ReadFile reads the runs of a file, one behind the other.
func ReadFile(name string) ([]*Run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	runs, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return runs, nil
}

func parse(text []byte) (runs []*Run, err error) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		r := new(Run)
		switch err := d.Decode(r); {
		case errors.Is(err, io.EOF) && len(runs) == 0:
			return nil, errors.New("no run in it: write one with \"eddy bench … --json\"")
		case errors.Is(err, io.EOF):
			return runs, nil
		case err != nil:
			return nil, fmt.Errorf("run %d is not the JSON of \"eddy bench … --json\": %w", len(runs)+1, err)
		case r.Schema != Schema:
			return nil, fmt.Errorf("run %d is of schema %q, this program reads %q", len(runs)+1, r.Schema, Schema)
		}
		runs = append(runs, r)
	}
}

// NewAttack returns the Run of an attack, with what its victims felt.
func NewAttack(o load.AttackOptions, undisturbed, disturbed *load.Result, a *load.Assault, eddy string) *Run {
	run := New(o.Kind, o.Options, disturbed, eddy)
	before := NewOutcome(o.Options, undisturbed)
	run.Undisturbed = &before
	run.Attack = &Attack{
		Attackers: o.Attackers, Every: o.Every.Seconds(), Opened: a.Opened, Rejected: a.Rejected, Closed: a.Closed, Ends: a.Ends, Lived: NewLatency(a.Lived),
		Paused: a.Paused, Taking: a.Taking, Sent: a.Sent,
	}
	return run
}
