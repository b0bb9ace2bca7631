package plan

import (
	"errors"
	"fmt"
)

// Point is one measurement of "eddy bench desk": servers on one PostgreSQL database, and messages at some rate.
type Point struct {
	Servers   int
	PerSecond float64 // messages
	Full      bool    // as many as they took

	// Of each message:
	Commits     float64 // transactions of the writers
	ServerCPU   float64 // microseconds of all servers
	DatabaseCPU float64 // microseconds
	Grown       float64 // bytes of the database
	WAL         float64 // bytes
	Syncs       float64
	BusMessages float64 // published; 0 = there was no bus
	BusBytes    float64 // published
}

// Measured are points, and where they come from.
type Measured struct {
	Date    string
	Machine string
	Idle    float64 // bytes of a server's memory for each visitor who is connected and says nothing
	Points  []Point
}

// Model are the constants that fit the points best. Times are in microseconds, of the machine that was measured.
type Model struct {
	measured Measured

	alone, together writer // of one server, and of several

	server   linear // processor time of all servers for each message: base, for each commit, for each other server that hears of it
	database linear // the same of the database
	wal      linear // bytes: base, for each commit
	syncs    linear // base, for each commit
	grown    float64
	busOut   float64 // messages
	busBytes float64
}

// writer is how long transactions take of the time in which only one writes, in seconds.
type writer struct{ commit, message float64 }

// linear is a sum with a factor for each part. Parts that do not fit are 0.
type linear struct{ base, commits, others float64 }

func (l linear) at(commits float64, servers int) float64 {
	return l.base + l.commits*commits + l.others*float64(servers-1)
}

// most is how many commands a transaction holds at most (sqlstore.Options.Group).
const most = 256

// Fit makes a model of points. It needs points of one server and of several, each at two rates and at full load.
func Fit(m Measured) (*Model, error) {
	if m.Idle <= 0 {
		return nil, errors.New("plan: no memory of an idle visitor was measured: measure with --only idle")
	}
	for i, p := range m.Points {
		if p.Servers < 1 || p.PerSecond <= 0 || p.Commits <= 0 || p.Commits > 2 || p.ServerCPU <= 0 || p.WAL <= 0 {
			return nil, fmt.Errorf("plan: point %d is not whole: %d servers, %g messages/s, %g commits, %g µs and %g bytes of WAL for each", i+1, p.Servers, p.PerSecond, p.Commits, p.ServerCPU, p.WAL)
		}
	}
	model := &Model{measured: m}
	var err error
	if model.alone, err = fitWriter(m.Points, func(p Point) bool { return p.Servers == 1 }); err != nil {
		return nil, fmt.Errorf("plan: one server: %w", err)
	}
	if model.together, err = fitWriter(m.Points, func(p Point) bool { return p.Servers > 1 }); err != nil {
		return nil, fmt.Errorf("plan: several servers: %w", err)
	}
	model.server = fitLinear(m.Points, true, func(p Point) float64 { return p.ServerCPU })
	model.database = fitLinear(m.Points, true, func(p Point) float64 { return p.DatabaseCPU })
	model.wal = fitLinear(m.Points, false, func(p Point) float64 { return p.WAL })
	model.grown = mean(m.Points, func(p Point) (float64, bool) { return p.Grown, true })
	model.syncs = fitLinear(m.Points, false, func(p Point) float64 { return p.Syncs })
	model.busOut = mean(m.Points, func(p Point) (float64, bool) { return p.BusMessages, p.BusMessages > 0 })
	model.busBytes = mean(m.Points, func(p Point) (float64, bool) { return p.BusBytes, p.BusMessages > 0 })
	return model, nil
}

func mean(points []Point, of func(Point) (float64, bool)) float64 {
	sum, n := 0.0, 0
	for _, p := range points {
		if v, ok := of(p); ok {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(max(n, 1))
}

func (m *Model) writer(servers int) writer {
	if servers == 1 {
		return m.alone
	}
	return m.together
}

// held returns how many messages a transaction holds: its own, and those that came while the one before ran.
func (w writer) held(perSecond float64) float64 {
	left := 1 - perSecond*w.message
	if left <= 0 {
		return most
	}
	return min((1+perSecond*w.commit)/left, most)
}

// rate returns the messages a second at which transactions hold so many.
func (w writer) rate(held float64) float64 { return (held - 1) / (w.commit + held*w.message) }

// fitWriter solves held × (1 - rate × message) = 1 + rate × commit for all points at once.
func fitWriter(points []Point, of func(Point) bool) (w writer, err error) {
	var rows [][]float64
	var want []float64
	full := false
	for _, p := range points {
		if !of(p) {
			continue
		}
		held := 1 / p.Commits
		rows = append(rows, []float64{p.PerSecond / held, p.PerSecond})
		want = append(want, (held-1)/held)
		full = full || p.Full
	}
	if len(rows) < 2 || !full {
		return w, fmt.Errorf("there are %d points, and a point at full load is %s: measure --only rate,full", len(rows), map[bool]string{true: "there", false: "missing"}[full])
	}
	x := leastSquares(rows, want)
	if w = (writer{commit: x[0], message: x[1]}); w.message <= 0 {
		return w, errors.New("the points do not say where the writer ends: more messages a second did not make transactions larger")
	}
	return w, nil
}

// fitLinear finds the factors of a linear for all points at once, each with the same weight whatever its size.
func fitLinear(points []Point, others bool, of func(Point) float64) linear {
	var rows [][]float64
	var want []float64
	for _, p := range points {
		v := of(p)
		if v <= 0 { // not measured
			continue
		}
		row := []float64{1 / v, p.Commits / v}
		if others {
			row = append(row, float64(p.Servers-1)/v)
		}
		rows, want = append(rows, row), append(want, 1)
	}
	x := append(leastSquares(rows, want), 0)
	return linear{base: x[0], commits: x[1], others: x[2]}
}
