package main

import (
	"fmt"
	"strings"
)

// grid is a table whose columns differ from comparison to comparison.
type grid struct {
	Title   string    `json:"title,omitempty"`
	First   string    `json:"first"` // heading of the first column, the names
	Columns []column  `json:"columns"`
	Rows    []gridRow `json:"rows"`
}

// column has a heading and the format of its values.
type column struct {
	Name   string `json:"name"`
	Format string `json:"format"`
}

type gridRow struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

func (g *grid) add(name string, values ...float64) {
	g.Rows = append(g.Rows, gridRow{name, values})
}

// ratio appends a column with the ratio of column at to its value in the first row.
func (g *grid) ratio(at int) {
	g.Columns = append(g.Columns, column{"ratio", "%.2f"})
	base := g.Rows[0].Values[at]
	for i := range g.Rows {
		r := 0.0
		if base != 0 {
			r = g.Rows[i].Values[at] / base
		}
		g.Rows[i].Values = append(g.Rows[i].Values, r)
	}
}

func (g *grid) write(w *strings.Builder) {
	if g.Title != "" {
		fmt.Fprintf(w, "\n%s\n", g.Title)
	}
	fmt.Fprintf(w, "\n| %s |", g.First)
	for _, c := range g.Columns {
		fmt.Fprintf(w, " %s |", c.Name)
	}
	w.WriteString("\n|---|" + strings.Repeat("--:|", len(g.Columns)) + "\n")
	for _, row := range g.Rows {
		fmt.Fprintf(w, "| %s |", row.Name)
		for i, v := range row.Values {
			fmt.Fprintf(w, " "+g.Columns[i].Format+" |", v)
		}
		w.WriteString("\n")
	}
}
