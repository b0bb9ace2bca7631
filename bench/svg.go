package main

import (
	"fmt"
	"html"
	"strings"
)

// bar is a bar of a chart. A range is drawn as a line when low is less than high.
type bar struct {
	name             string
	value, low, high float64
	text             string // beside the bar
}

// chart returns an SVG with horizontal bars, readable on light and dark pages.
func chart(title, axis string, bars []bar) string {
	const (
		width, names, figures = 860, 330, 150
		top, step, thick      = 46, 26, 16
	)
	longest := 0.0
	for _, b := range bars {
		longest = max(longest, b.value, b.high)
	}
	if longest == 0 {
		longest = 1
	}
	at := func(v float64) float64 { return names + max(v, 0)/longest*(width-names-figures) }
	height := top + step*len(bars) + 12
	var w strings.Builder
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(title))
	fmt.Fprintf(&w, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&w, `<text x="8" y="18" font-weight="600" fill="#1a1a1a">%s</text><text x="8" y="36" fill="#555555">%s</text>`+"\n", html.EscapeString(title), html.EscapeString(axis))
	for i, b := range bars {
		y := top + i*step
		middle := y + thick/2
		fill := "#9aa5b1"
		if strings.HasPrefix(b.name, "eddy") {
			fill = "#2f6fb0"
		}
		fmt.Fprintf(&w, `<text x="%d" y="%d" text-anchor="end" fill="#1a1a1a">%s</text>`, names-8, middle+5, html.EscapeString(b.name))
		fmt.Fprintf(&w, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, names, y, at(b.value)-names, thick, fill)
		if b.low < b.high {
			fmt.Fprintf(&w, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#1a1a1a" stroke-width="1.5"/>`, at(b.low), at(b.high), middle, middle)
		}
		fmt.Fprintf(&w, `<text x="%.1f" y="%d" fill="#1a1a1a">%s</text>`+"\n", max(at(b.value), at(b.high))+8, middle+5, html.EscapeString(b.text))
	}
	w.WriteString("</svg>\n")
	return w.String()
}

// charts returns the charts of a report as files.
func (r *report) charts(name string, p part) []picture {
	var all []picture
	add := func(svg string) { all = append(all, picture{fmt.Sprintf("%s-%d.svg", name, len(all)+1), svg}) }
	for _, t := range r.Tables {
		var bars []bar
		for _, row := range t.Rows {
			bars = append(bars, bar{row.Name, row.Ratio, row.RatioLow, row.RatioHigh, fmt.Sprintf("%.2f (%.2f–%.2f)", row.Ratio, row.RatioLow, row.RatioHigh)})
		}
		add(chart(fmt.Sprintf("%s: %s, GOMAXPROCS=%d", p.title, t.testCase(), t.Procs), r.Unit+" per CPU second, ratio to the first row; line: lowest to highest round", bars))
	}
	for _, g := range r.Grids {
		at := g.column(p.chart)
		if at < 0 {
			continue
		}
		var bars []bar
		for _, row := range g.Rows {
			v := row.Values[at]
			bars = append(bars, bar{name: row.Name, value: v, text: fmt.Sprintf(g.Columns[at].Format, v)})
		}
		add(chart(strings.TrimSuffix(p.title+": "+g.Title, ": "), p.chart, bars))
	}
	return all
}

// picture is a file's name and text.
type picture struct{ name, text string }

// column finds a column by its heading, -1 if there is none.
func (g *grid) column(name string) int {
	for i, c := range g.Columns {
		if name != "" && c.Name == name {
			return i
		}
	}
	return -1
}
