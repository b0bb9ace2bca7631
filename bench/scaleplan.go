package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What is planned: so many connections, on machines of which a part is left free.
const (
	planned           = 1_000_000
	machineProcessors = 8
	machineMemory     = 32 << 30
	machineUse        = 0.6
)

// quantity is what a model is made of.
type quantity struct {
	name   string // with the unit of its values
	column string // with the unit of the tables
	unit   float64
	terms  []term
	of     func(point) float64
}

// The places of the quantities among those of a curve.
const (
	resident = iota
	peak
	perMessage
)

var quantities = []quantity{
	resident:   {"Resident bytes", "resident MiB", 1 << 20, memoryTerms, func(p point) float64 { return p.resident }},
	peak:       {"Peak bytes", "peak MiB", 1 << 20, memoryTerms, func(p point) float64 { return float64(p.busy.PeakRSS) }},
	perMessage: {"µs per message", "µs per message", 1, processorTerms, func(p point) float64 { return p.busy.perMessage() }},
}

// costs are the models of one curve.
type costs struct {
	*curve
	models []model // one for each of quantities
	kernel float64 // bytes of slabs for one end of a connection
}

// values returns a quantity at each point, with the number of connections.
func (cv *curve) values(q quantity) (n, y []float64) {
	for _, p := range cv.points {
		n = append(n, float64(p.conns))
		y = append(y, q.of(p))
	}
	return n, y
}

// fitted returns the curve with its models.
func (cv *curve) fitted(kernel float64) (costs, error) {
	c := costs{curve: cv, kernel: kernel}
	for _, q := range quantities {
		n, y := cv.values(q)
		m, err := fit(q.terms, n, y)
		if err != nil {
			return c, fmt.Errorf("%s: %w", q.name, err)
		}
		c.models = append(c.models, m)
	}
	return c, nil
}

// kernelBytes returns the bytes of slabs for one end of a connection, of all points. It is a line through the origin by
// plain least squares. Not by the relative error, because the noise is the whole machine's, whatever the number.
func kernelBytes(curves []*curve) float64 {
	var sum, weight float64
	for _, cv := range curves {
		for _, p := range cv.points {
			w := float64(p.conns) * float64(p.conns)
			sum += w * p.slab
			weight += w
		}
	}
	return sum / weight
}

// report returns the points, the models beside them, and the plan.
func (x *scaling) report(skipped []string) (*report, error) {
	kernel := kernelBytes(x.curves)
	var all []costs
	rep := &report{Size: x.size}
	for _, cv := range x.curves {
		c, err := cv.fitted(kernel)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cv.Name, err)
		}
		all = append(all, c)
		rep.Grids = append(rep.Grids, cv.grid())
	}
	rep.Grids = append(rep.Grids, x.sparse())
	for _, c := range all {
		rep.Grids = append(rep.Grids, c.grid())
	}
	rep.Grids = append(rep.Grids, plan(all))
	note := []string{
		fmt.Sprintf("\n%d B, %d rounds of %s each, interleaved; GOMAXPROCS is the number of loops. Memory: all connections open, each after one exchange, without a forced collection.", x.size, x.rounds, x.duration),
		fmt.Sprintf("Slabs are those of the whole machine, where both ends are; all points together make %.0f B for one end.", kernel),
		fmt.Sprintf("Nobody has run %d connections: the plan is computed. Nor was one process with more loops than this machine has processors measured.", planned),
	}
	for _, name := range skipped {
		note = append(note, name+".")
	}
	rep.Note = strings.Join(note, " ")
	return rep, nil
}

// costColumn is the heading of the column that is drawn in the results.
const costColumn = "µs of the server per message"

// grid returns the points of a curve.
func (cv *curve) grid() *grid {
	g := &grid{Title: cv.Name + ", all connections speak, in a closed loop:", First: "connections", Columns: []column{
		{"resident bytes per connection", "%.0f"}, {"slab bytes for one end, of the whole machine", "%.0f"},
		{costColumn, "%.2f"}, {"messages / s", "%.0f"}, {"p99 µs", "%.0f"}, {"peak RSS MiB", "%.1f"},
	}}
	for _, p := range cv.points {
		g.add(strconv.Itoa(p.conns), (p.resident-p.before)/float64(p.conns), p.slab, p.busy.perMessage(), p.busy.PerSecond, p.busy.P99, float64(p.busy.PeakRSS)/(1<<20))
	}
	return g
}

// sparse returns what a message costs at the paces of the plan.
func (x *scaling) sparse() *grid {
	g := &grid{Title: fmt.Sprintf("%d connections that speak seldom, in an open loop:", x.last().conns), First: "server, pace of a connection", Columns: []column{
		{costColumn, "%.2f"}, {"messages / s", "%.0f"}, {"p99 µs", "%.0f"},
	}}
	for i, p := range scalePaces {
		for _, cv := range x.curves {
			r := cv.sparse[i]
			g.add(cv.Name+", "+p.name, r.perMessage(), r.PerSecond, r.P99)
		}
	}
	return g
}

// last returns the point with the plan's connections for a process.
func (x *scaling) last() point { return x.curves[0].points[len(x.curves[0].points)-1] }

// grid returns the models beside the points.
func (c costs) grid() *grid {
	g := &grid{Title: "Model of " + c.Name + ".", First: "connections"}
	for _, p := range c.points {
		g.add(strconv.Itoa(p.conns))
	}
	for i, q := range quantities {
		n, y := c.values(q)
		off, largest := c.models[i].errors(n, y)
		g.Title += fmt.Sprintf(" %s = %s, largest error %.1f %%.", q.name, c.models[i], largest)
		g.Columns = append(g.Columns, column{q.column + ", measured", "%.2f"}, column{"by the model", "%.2f"}, column{"error of it, %", "%+.1f"})
		for k := range g.Rows {
			g.Rows[k].Values = append(g.Rows[k].Values, y[k]/q.unit, c.models[i].at(n[k])/q.unit, off[k])
		}
	}
	return g
}

// plan returns what the planned connections take. First come processes of the largest size measured, with the fewest
// loops. Then come as few processes as can be, with the most loops.
func plan(all []costs) *grid {
	g := &grid{
		Title: fmt.Sprintf("Plan for %d connections, computed and never run, on machines of %d processors and %d GiB, of which %.0f %% are planned. A process has one connection for each file that its limit allows, or fewer where one machine cannot bear it:",
			planned, machineProcessors, machineMemory>>30, 100*machineUse),
		First: "connections and loops of a process, pace of a connection", Columns: []column{
			{"processes", "%.0f"}, {"resident GiB", "%.2f"}, {"peak GiB", "%.2f"}, {"GiB of slabs", "%.2f"}, {"µs per message", "%.2f"}, {"processors", "%.2f"},
			{"machines for the memory", "%.0f"}, {"machines for the processors", "%.0f"}, {"machines", "%.0f"},
		}}
	few, many := all[0], all[len(all)-1]
	for i, p := range scalePaces {
		most := few.points[len(few.points)-1].conns
		g.add(fmt.Sprintf("up to %d, %s, %s", most, few.Name, p.name), few.need(most, i)...)
	}
	for i, p := range scalePaces {
		g.add(fmt.Sprintf("up to %d, %s, %s", planned, many.Name, p.name), many.need(planned, i)...)
	}
	return g
}

// need returns the plan for processes of at most that many connections, each with a message at a pace. The memory of a
// machine has to bear the peak. A process is on one machine, so there are never fewer processes than machines.
func (c costs) need(most, pace int) []float64 {
	for processes := ceiling(float64(planned) / float64(most)); ; {
		n := planned / processes
		open, highest, slabs := processes*c.models[resident].at(n), processes*c.models[peak].at(n), planned*c.kernel
		micros := max(c.models[perMessage].at(n), c.sparse[pace].perMessage())
		processors := planned / scalePaces[pace].every.Seconds() * micros / 1e6
		forMemory := ceiling((highest + slabs) / (machineMemory * machineUse))
		forProcessors := ceiling(processors / (machineProcessors * machineUse))
		machines := max(forMemory, forProcessors)
		if machines <= processes {
			return []float64{processes, open / (1 << 30), highest / (1 << 30), slabs / (1 << 30), micros, processors, forMemory, forProcessors, machines}
		}
		processes = machines
	}
}

// ceiling returns the least whole number of at least 1 that is not below v.
func ceiling(v float64) float64 { return max(math.Ceil(v), 1) }
