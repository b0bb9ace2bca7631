package plan

import "math"

// leastSquares returns the factors x ≥ 0 with which rows × x comes nearest to want. It tries every choice of columns, of
// which there are few.
func leastSquares(rows [][]float64, want []float64) []float64 {
	columns := 0
	if len(rows) > 0 {
		columns = len(rows[0])
	}
	best, nearest := make([]float64, columns), math.Inf(1)
	for chosen := range 1 << columns {
		var use []int
		for c := range columns {
			if chosen>>c&1 == 1 {
				use = append(use, c)
			}
		}
		x, ok := solve(rows, want, use)
		if !ok {
			continue
		}
		full := make([]float64, columns)
		for i, c := range use {
			full[c] = x[i]
		}
		if d := distance(rows, want, full); d < nearest-1e-12 {
			best, nearest = full, d
		}
	}
	return best
}

func distance(rows [][]float64, want, x []float64) (sum float64) {
	for i, row := range rows {
		d := -want[i]
		for c := range row {
			d += row[c] * x[c]
		}
		sum += d * d
	}
	return sum
}

// solve solves the normal equations of some columns. ok is false if they have no single solution, or one below 0.
func solve(rows [][]float64, want []float64, use []int) (x []float64, ok bool) {
	n := len(use)
	m := make([][]float64, n) // with the right side as its last column
	for i, a := range use {
		m[i] = make([]float64, n+1)
		for k, row := range rows {
			for j, b := range use {
				m[i][j] += row[a] * row[b]
			}
			m[i][n] += row[a] * want[k]
		}
	}
	for i := range n {
		pivot := i
		for k := i + 1; k < n; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[pivot][i]) {
				pivot = k
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-15 {
			return nil, false
		}
		for k := range n {
			if k == i {
				continue
			}
			f := m[k][i] / m[i][i]
			for j := i; j <= n; j++ {
				m[k][j] -= f * m[i][j]
			}
		}
	}
	x = make([]float64, n)
	for i := range n {
		if x[i] = m[i][n] / m[i][i]; x[i] < 0 {
			return nil, false
		}
	}
	return x, true
}
