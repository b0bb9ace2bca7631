package measured

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Side is one of the things compared, with its runs.
type Side struct {
	Name string
	Runs []*Run
}

// Verdicts of a comparison.
const (
	Higher       = "higher"
	Lower        = "lower"
	NoDifference = "no difference shown"
	TooFew       = "too few runs to tell"
	NotMeasured  = "not measured"
)

// leastRuns is how many runs a side needs for a meaningful interval. With two runs, Student's distribution has one
// degree of freedom, and the interval is tens of times as wide as the runs lie apart.
const leastRuns = 3

// A Row compares one figure of a side with that of the first.
type Row struct {
	Metric   string `json:"metric"`
	Side     string `json:"side"`
	Runs     int    `json:"runs"`
	Base     Mean   `json:"base"`
	Value    Mean   `json:"value"`
	Ratio    Mean   `json:"ratio"` // value / base
	Verdict  string `json:"verdict"`
	Decimals int    `json:"-"` // of base and value as they are printed
}

// Mean is a geometric mean with its interval of 95 % confidence. Low and High are 0 when there are too few runs.
type Mean struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

type metric struct {
	name     string
	decimals int
	of       func(*Run) float64
}

var metrics = []metric{
	{"requests/s", 0, func(r *Run) float64 { return r.PerSecond }},
	{"mean ms", 3, func(r *Run) float64 { return r.Latency.Mean }},
	{"p50 ms", 3, func(r *Run) float64 { return r.Latency.P50 }},
	{"p90 ms", 3, func(r *Run) float64 { return r.Latency.P90 }},
	{"p99 ms", 3, func(r *Run) float64 { return r.Latency.P99 }},
	{"p99.9 ms", 3, func(r *Run) float64 { return r.Latency.P999 }},
}

// Compare compares every side with the first, figure by figure. The result is the ratio of geometric means, with Welch's
// interval on the logarithms of the runs. That interval allows the sides a different spread, and assumes only that the
// runs of a side are alike.
func Compare(sides []Side) ([]Row, error) {
	if len(sides) < 2 {
		return nil, errors.New("a comparison needs two sides at least")
	}
	var rows []Row
	for _, m := range metrics {
		base := sample(sides[0].Runs, m.of)
		for _, s := range sides[1:] {
			rows = append(rows, compare(m, base, s))
		}
	}
	return rows, nil
}

func compare(m metric, base []float64, s Side) Row {
	value := sample(s.Runs, m.of)
	r := Row{Metric: m.name, Side: s.Name, Runs: len(s.Runs), Decimals: m.decimals, Verdict: NotMeasured}
	if base == nil || value == nil {
		return r
	}
	r.Base, r.Value = interval(base), interval(value)
	r.Ratio.Mean = r.Value.Mean / r.Base.Mean
	if len(base) < leastRuns || len(value) < leastRuns {
		r.Verdict = TooFew
		return r
	}
	half := welch(base, value)
	r.Ratio.Low, r.Ratio.High = r.Ratio.Mean*math.Exp(-half), r.Ratio.Mean*math.Exp(half)
	switch {
	case r.Ratio.Low > 1:
		r.Verdict = Higher
	case r.Ratio.High < 1:
		r.Verdict = Lower
	default:
		r.Verdict = NoDifference
	}
	return r
}

// sample returns the logarithms of a figure, nil if a run has none.
func sample(runs []*Run, of func(*Run) float64) []float64 {
	logs := make([]float64, len(runs))
	for i, r := range runs {
		v := of(r)
		if !(v > 0) || math.IsInf(v, 0) {
			return nil
		}
		logs[i] = math.Log(v)
	}
	return logs
}

// moments returns the mean of a sample and the variance of that mean.
func moments(logs []float64) (mean, variance float64) {
	for _, x := range logs {
		mean += x / float64(len(logs))
	}
	if len(logs) < 2 {
		return mean, 0
	}
	for _, x := range logs {
		variance += (x - mean) * (x - mean)
	}
	n := float64(len(logs))
	return mean, variance / (n - 1) / n
}

// interval returns the mean with Student's interval.
func interval(logs []float64) Mean {
	mean, variance := moments(logs)
	m := Mean{Mean: math.Exp(mean)}
	if len(logs) >= leastRuns {
		half := studentT(float64(len(logs)-1)) * math.Sqrt(variance)
		m.Low, m.High = math.Exp(mean-half), math.Exp(mean+half)
	}
	return m
}

// welch returns half the width of the interval of the difference of two means (Welch 1947, with Satterthwaite's degrees
// of freedom).
func welch(a, b []float64) float64 {
	_, va := moments(a)
	_, vb := moments(b)
	if va+vb == 0 {
		return 0
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	return studentT(freedom) * math.Sqrt(va+vb)
}

// studentT returns the 97.5th percentile of Student's distribution, found by halving. The probability comes from the
// incomplete beta function.
func studentT(freedom float64) float64 {
	low, high := 0.0, 1e4
	for range 100 {
		mid := (low + high) / 2
		if tail := beta(freedom/(freedom+mid*mid), freedom/2, 0.5); tail > 0.05 { // both tails
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// beta is the regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8).
func beta(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log(1-x))
	if x < (a+1)/(a+b+2) {
		return front * fraction(x, a, b) / a
	}
	return 1 - front*fraction(1-x, b, a)/b
}

// fraction evaluates the continued fraction from the inside out. 200 terms are enough for every a and b here.
func fraction(x, a, b float64) float64 {
	f := 1.0
	for m := 200; m >= 1; m-- {
		n := float64(m)
		even := n * (b - n) * x / ((a + 2*n - 1) * (a + 2*n))
		odd := -(a + n) * (a + b + n) * x / ((a + 2*n) * (a + 2*n + 1))
		f = 1 + even/(1+odd/f)
	}
	return 1 / (1 - (a+b)*x/(a+1)/f)
}

// Differences returns the settings in which the runs are not alike. With any, the figures do not compare the servers
// alone.
func Differences(sides []Side) []string {
	first := sides[0].Runs[0]
	var found []string
	note := func(what string, a, b any) {
		if text := fmt.Sprintf("%s: %v and %v", what, a, b); a != b && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	for _, s := range sides {
		for _, r := range s.Runs {
			note("scenario", first.Scenario, r.Scenario)
			note("protocol", first.Protocol, r.Protocol)
			note("tls", first.TLS, r.TLS)
			note("mode", first.Mode, r.Mode)
			note("conns", first.Conns, r.Conns)
			note("size", first.Size, r.Size)
			note("inflight", first.InFlight, r.InFlight)
			note("rate", first.Rate, r.Rate)
			note("duration_s", first.Duration, r.Duration)
			note("cpus", first.Machine.CPUs, r.Machine.CPUs)
		}
	}
	return found
}
