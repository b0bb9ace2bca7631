package main

import (
	"math"
	"testing"
)

// TestModelOfExactPoints: points that lie on a model give its parameters back, without an error.
func TestModelOfExactPoints(t *testing.T) {
	n := []float64{10, 100, 1000, 5000, 10000, 19000}
	for _, want := range []model{
		{memoryTerms, []float64{8 << 20, 400}},
		{processorTerms, []float64{6, 18, 0.5}},
		{processorTerms, []float64{9, -4, -0.25}},
	} {
		var y []float64
		for _, v := range n {
			y = append(y, want.at(v))
		}
		got, err := fit(want.terms, n, y)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range want.params {
			if math.Abs(got.params[i]/p-1) > 1e-6 {
				t.Errorf("%v, want %v", got, want)
			}
		}
		if _, largest := got.errors(n, y); largest > 1e-6 {
			t.Errorf("%v: error %v %%", got, largest)
		}
	}
}

// TestModelOfNoisyPoints: the errors are those of the model with the least sum of squares, and the largest is named.
func TestModelOfNoisyPoints(t *testing.T) {
	// A constant over 1 and 2: (a-1)² + (a/2-1)² is least for a = 1.2.
	n, y := []float64{10, 20}, []float64{1, 2}
	m, err := fit([]term{constant}, n, y)
	if err != nil {
		t.Fatal(err)
	}
	got, largest := m.errors(n, y)
	for i, want := range []float64{20, -40} {
		if math.Abs(got[i]-want) > 1e-9 {
			t.Errorf("errors %v, want 20 and -40 %%", got)
		}
	}
	if math.Abs(largest-40) > 1e-9 {
		t.Errorf("largest error %v, want 40 %%", largest)
	}
}

// TestModelNeedsPoints: fewer points than terms leave terms out, equal terms and a point at 0 are errors.
func TestModelNeedsPoints(t *testing.T) {
	m, err := fit(processorTerms, []float64{10, 100}, []float64{9, 7.2})
	if err != nil || len(m.terms) != 2 || math.Abs(m.at(100)-7.2) > 1e-9 {
		t.Errorf("two points: %v, %v", m, err)
	}
	if m, err := fit(memoryTerms, []float64{10, 10}, []float64{1, 2}); err != nil || len(m.terms) != 1 {
		t.Errorf("one number of connections twice: %v, %v", m, err)
	}
	if m, err := fit([]term{constant, constant}, []float64{10, 20}, []float64{1, 2}); err == nil {
		t.Errorf("terms that are the same: %v", m)
	}
	if m, err := fit(memoryTerms, []float64{10, 20}, []float64{1, 0}); err == nil {
		t.Errorf("a point at 0: %v", m)
	}
}

func TestModelText(t *testing.T) {
	for want, m := range map[string]model{
		"7.00 + 18.25 / N − 0.50 × log10 N": {processorTerms, []float64{7, 18.25, -0.5}},
		"8388608 + 400.00 × N":              {memoryTerms, []float64{8 << 20, 400}},
	} {
		if m.String() != want {
			t.Errorf("%q, want %q", m, want)
		}
	}
}
