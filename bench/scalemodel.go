package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// term is a function of the number of connections, N.
type term struct {
	name string // as it stands behind its parameter
	of   func(n float64) float64
}

// model is a sum of terms, each times its parameter.
type model struct {
	terms  []term
	params []float64
}

var (
	constant = term{"", func(float64) float64 { return 1 }}
	each     = term{" × N", func(n float64) float64 { return n }}
	shared   = term{" / N", func(n float64) float64 { return 1 / n }}
	decades  = term{" × log10 N", math.Log10}
)

// memoryTerms make base + m·N: what the server has anyway, and the same for each connection.
var memoryTerms = []term{constant, each}

// processorTerms make a + b/N + c·log10 N. The measured cost of a message falls as N grows from 10, and then rises. No
// straight line in N, or in its logarithm, follows that. b is a turn of the loop, shared by the messages that came
// together. c is what each tenfold of connections adds, which we take to be state that leaves the caches. A message costs
// a anyway.
var processorTerms = []term{constant, shared, decades}

// distinct returns the numbers in rising order, each once.
func distinct[T int | float64](n []T) []T { return slices.Compact(slices.Sorted(slices.Values(n))) }

// fit finds the parameters by least squares of the relative error, so that a point counts alike whatever its size.
// With fewer numbers of connections than terms the first terms do.
func fit(terms []term, n, y []float64) (model, error) {
	terms = terms[:min(len(terms), len(distinct(n)))]
	size := len(terms)
	rows := make([][]float64, size) // the normal equations, right side last
	for i := range rows {
		rows[i] = make([]float64, size+1)
	}
	for k := range n {
		if y[k] <= 0 {
			return model{}, fmt.Errorf("no model of %v at %v connections", y[k], n[k])
		}
		for i, a := range terms {
			at := a.of(n[k]) / y[k]
			for j, b := range terms {
				rows[i][j] += at * b.of(n[k]) / y[k]
			}
			rows[i][size] += at
		}
	}
	params, err := solve(rows)
	return model{terms, params}, err
}

// solve solves linear equations by elimination. Each row has the right side behind its coefficients.
func solve(rows [][]float64) ([]float64, error) {
	size := len(rows)
	for i := range rows {
		pivot := i
		for k := i + 1; k < size; k++ {
			if math.Abs(rows[k][i]) > math.Abs(rows[pivot][i]) {
				pivot = k
			}
		}
		rows[i], rows[pivot] = rows[pivot], rows[i]
		if rows[i][i] == 0 {
			return nil, errors.New("the points do not determine the model")
		}
		for k := range rows {
			if k == i {
				continue
			}
			f := rows[k][i] / rows[i][i]
			for j := i; j <= size; j++ {
				rows[k][j] -= f * rows[i][j]
			}
		}
	}
	x := make([]float64, size)
	for i, row := range rows {
		x[i] = row[size] / row[i]
	}
	return x, nil
}

// at returns the value of the model for n connections.
func (m model) at(n float64) (sum float64) {
	for i, t := range m.terms {
		sum += m.params[i] * t.of(n)
	}
	return sum
}

// errors returns by how many percent the model is above each point, and the largest of them without its sign.
func (m model) errors(n, y []float64) (each []float64, largest float64) {
	for i := range n {
		e := 100 * (m.at(n[i])/y[i] - 1)
		each = append(each, e)
		largest = max(largest, math.Abs(e))
	}
	return each, largest
}

// String returns the model with its parameters.
func (m model) String() string {
	var w strings.Builder
	for i, t := range m.terms {
		v := m.params[i]
		switch {
		case i > 0 && v < 0:
			w.WriteString(" − ")
			v = -v
		case i > 0:
			w.WriteString(" + ")
		}
		digits := 2
		if math.Abs(v) >= 1000 {
			digits = 0
		}
		fmt.Fprintf(&w, "%.*f%s", digits, v, t.name)
	}
	return w.String()
}
