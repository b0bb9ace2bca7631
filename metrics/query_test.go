package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/metrics/internal/expotest"
)

// catalogue is what docs/metrics.md promises, by name.
type catalogue map[string]expotest.Row

func promised(t *testing.T) catalogue {
	t.Helper()
	c := catalogue{}
	for _, r := range expotest.Tables(t) {
		c[r.Name] = r
	}
	return c
}

// variables are what dashboards put into queries before Prometheus sees them.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h") //nolint:gochecknoglobals // never written

// check parses a query with Prometheus's own parser and fails for metrics, labels and label values that do not exist. It
// returns the labels of the result.
func (c catalogue) check(t *testing.T, where, query string) map[string]bool {
	t.Helper()
	expr, err := parser.ParseExpr(variables.Replace(query))
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, query)
		return nil
	}
	there := map[string]bool{}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			maps.Copy(there, c.selector(t, where, n))
		case *parser.Call:
			if v, ok := selectorOf(n); ok && slices.Contains([]string{"rate", "increase", "irate"}, n.Func.Name) && !c.counts(v.Name) {
				t.Errorf("%s: %s of %s, which is no counter", where, n.Func.Name, v.Name)
			}
		}
		return nil
	})
	result := there
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !there[l] {
					t.Errorf("%s: by %s, which nothing in %s has", where, l, query)
				}
			}
			if len(a.Grouping) > 0 || a.Op == parser.SUM {
				result = map[string]bool{}
				for _, l := range a.Grouping {
					result[l] = true
				}
			}
			if len(path) == 0 && a.Op == parser.TOPK {
				result = there
			}
		}
		return nil
	})
	return result
}

// counts reports whether a series only grows.
func (c catalogue) counts(series string) bool {
	_, part := c.histogram(series)
	return part != "" || strings.HasSuffix(series, "_total")
}

func selectorOf(call *parser.Call) (*parser.VectorSelector, bool) {
	if len(call.Args) == 0 {
		return nil, false
	}
	m, ok := call.Args[0].(*parser.MatrixSelector)
	if !ok {
		return nil, false
	}
	v, ok := m.VectorSelector.(*parser.VectorSelector)
	return v, ok
}

// selector returns the labels that a metric's series have.
func (c catalogue) selector(t *testing.T, where string, v *parser.VectorSelector) map[string]bool {
	t.Helper()
	there := map[string]bool{"job": true, "instance": true}
	row, ok := c[v.Name]
	if of, part := c.histogram(v.Name); part != "" {
		row, ok = of, true
		there["le"] = part == "bucket"
	}
	if !ok && !strings.HasPrefix(v.Name, "go_") && !strings.HasPrefix(v.Name, "process_") && v.Name != "up" {
		t.Errorf("%s: docs/metrics.md has no metric %s", where, v.Name)
	}
	for _, l := range row.Labels {
		there[l] = true
	}
	for _, m := range v.LabelMatchers {
		if m.Name != labels.MetricName && !there[m.Name] {
			t.Errorf("%s: %s has no label %s", where, v.Name, m.Name)
		}
		checkWords(t, where, v.Name, m)
	}
	return there
}

// histogram returns the metric that a series of a histogram belongs to, and which part of it the series is, "" for what is none.
func (c catalogue) histogram(series string) (expotest.Row, string) {
	for _, part := range []string{"bucket", "sum", "count"} {
		if row, ok := c[strings.TrimSuffix(series, "_"+part)]; ok && row.Type == "histogram" && strings.HasSuffix(series, "_"+part) {
			return row, part
		}
	}
	return expotest.Row{}, ""
}

// checkWords fails for a close reason or a cause of refusals that does not exist.
func checkWords(t *testing.T, where, metric string, m *labels.Matcher) {
	t.Helper()
	var known []string
	switch {
	case m.Name == "reason":
		for _, r := range eddy.CloseReasons() {
			known = append(known, r.String())
		}
	case m.Name == "cause" && metric == "eddy_server_rejected_total":
		for _, r := range eddy.RefuseCauses() {
			known = append(known, r.String())
		}
	default:
		return
	}
	for word := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(known, word) {
			t.Errorf("%s: %s has no %s %q", where, metric, m.Name, word)
		}
	}
}

// history are scrapes that Prometheus made at a distance of one window: what a query calls 1h, and offset 1h, is one scrape
// back. There is nothing before the first.
type history []samples

// series are the values of an expression by their labels.
type series map[string]float64

// eval returns the value of a query at the last scrape, for the parts of the language that the documents use. increase does
// not extrapolate, and has no value where there was no sample before, as in Prometheus.
func (h history) eval(t *testing.T, query string) series {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Fatal(err)
	}
	return h.of(t, expr)
}

func (h history) of(t *testing.T, expr parser.Expr) series {
	t.Helper()
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return h.of(t, e.Expr)
	case *parser.VectorSelector:
		return h.at(e, 0)
	case *parser.Call:
		if v, ok := selectorOf(e); ok && e.Func.Name == "increase" {
			return h.increase(v)
		}
	case *parser.AggregateExpr:
		return aggregate(t, e, h.of(t, e.Expr))
	case *parser.BinaryExpr:
		if n, ok := e.RHS.(*parser.NumberLiteral); ok && e.Op == parser.GTR {
			all := h.of(t, e.LHS)
			maps.DeleteFunc(all, func(_ string, v float64) bool { return v <= n.Val })
			return all
		}
		if e.Op == parser.MUL && e.VectorMatching.Card == parser.CardManyToOne {
			return described(t, h.of(t, e.LHS), h.of(t, e.RHS), e.VectorMatching.Include)
		}
		return combine(t, e.Op, h.of(t, e.LHS), h.of(t, e.RHS))
	}
	t.Fatalf("the test does not know how to evaluate %T %s", expr, expr)
	return nil
}

// at returns the series of a selector so many scrapes before the last, and its own offset.
func (h history) at(v *parser.VectorSelector, back int) series {
	if v.OriginalOffset != 0 {
		back++
	}
	all := series{}
	if back >= len(h) {
		return all
	}
	for name, value := range h[len(h)-1-back] {
		metric, rest, _ := strings.Cut(name, "{")
		if metric == v.Name && matches(v.LabelMatchers, pairs(rest)) {
			all["{"+rest] = value
		}
	}
	return all
}

func (h history) increase(v *parser.VectorSelector) series {
	now, before, all := h.at(v, 0), h.at(v, 1), series{}
	for labels, value := range now {
		if was, ok := before[labels]; ok {
			all[labels] = value - was
		}
	}
	return all
}

func matches(all []*labels.Matcher, have map[string]string) bool {
	for _, m := range all {
		if m.Name != labels.MetricName && !m.Matches(have[m.Name]) {
			return false
		}
	}
	return true
}

// pairs returns the labels of a series of this file's tests, whose values have no commas.
func pairs(written string) map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(strings.Trim(written, "{}"), ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			all[name] = strings.Trim(value, `"`)
		}
	}
	return all
}

func aggregate(t *testing.T, e *parser.AggregateExpr, from series) series {
	t.Helper()
	switch e.Op {
	case parser.TOPK:
		return from // the tests have fewer
	case parser.SUM:
	default:
		t.Fatalf("the test does not know how to evaluate %s", e)
	}
	sums := series{}
	for labels, v := range from {
		have := pairs(labels)
		var kept []string
		for _, name := range slices.Sorted(slices.Values(e.Grouping)) {
			kept = append(kept, fmt.Sprintf("%s=%q", name, have[name]))
		}
		sums["{"+strings.Join(kept, ",")+"}"] += v
	}
	return sums
}

// combine joins two vectors by their labels.
func combine(t *testing.T, op parser.ItemType, left, right series) series {
	t.Helper()
	all := series{}
	for labels, l := range left {
		r, ok := right[labels]
		switch {
		case op == parser.LOR, op == parser.LUNLESS && !ok:
			all[labels] = l
		case op == parser.LUNLESS, !ok:
		case op == parser.DIV:
			all[labels] = l / r
		case op == parser.SUB:
			all[labels] = l - r
		default:
			t.Fatalf("the test does not know the operator %s", op)
		}
	}
	if op == parser.LOR {
		for labels, r := range right {
			if _, ok := left[labels]; !ok {
				all[labels] = r
			}
		}
	}
	return all
}

// described adds labels of the one series on the right, whose value is 1, to the series on the left: all are of one program.
func described(t *testing.T, left, right series, names []string) series {
	t.Helper()
	all := series{}
	for written, one := range right {
		if len(right) != 1 || one != 1 {
			t.Fatalf("%v describes a program", right)
		}
		about := pairs(written)
		for labels, v := range left {
			with := pairs(labels)
			for _, n := range names {
				with[n] = about[n]
			}
			var b []string
			for _, n := range slices.Sorted(maps.Keys(with)) {
				b = append(b, fmt.Sprintf("%s=%q", n, with[n]))
			}
			all["{"+strings.Join(b, ",")+"}"] = v
		}
	}
	return all
}
