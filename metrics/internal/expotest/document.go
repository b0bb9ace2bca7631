// Package expotest compares docs/metrics.md with the metrics that collectors describe.
package expotest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/metrics/internal/expo"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md anew") //nolint:gochecknoglobals // a flag of tests

// Row is a metric as the document describes it.
type Row struct {
	Name, Type, Unit, Help string
	Labels                 []string
}

const header = "| name | type | labels | unit | what it is |\n|---|---|---|---|---|\n"

// File returns the path of a file of the module.
func File(t *testing.T, name ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, filepath.Join(name...))
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = filepath.Dir(dir)
	}
}

// Read returns the text of a file of the module.
func Read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(File(t, name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Tables returns the metrics of all tables of docs/metrics.md.
func Tables(t *testing.T) []Row {
	t.Helper()
	var all []Row
	inside := false
	for line := range strings.Lines(Read(t, "docs", "metrics.md")) {
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		inside = inside || line == strings.SplitAfter(header, "\n")[0]
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); inside && strings.HasPrefix(cells[0], "`") {
			if len(cells) != 5 {
				t.Fatalf("%d cells in %q", len(cells), line)
			}
			r := Row{Name: strings.Trim(cells[0], "`"), Type: cells[1], Unit: cells[3], Help: cells[4]}
			for label := range strings.FieldsSeq(strings.ReplaceAll(cells[2], "`", "")) {
				r.Labels = append(r.Labels, strings.TrimSuffix(label, ","))
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		t.Fatal("docs/metrics.md has no table of metrics")
	}
	return all
}

// Document compares the table below a heading of docs/metrics.md with families. The table must have a row for each family,
// as described, in the same order, and no other row.
func Document(t *testing.T, heading string, families []*expo.Family) {
	t.Helper()
	const name = "metrics.md"
	text := Read(t, "docs", name)
	before, rest, ok := strings.Cut(text, "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("docs/%s has no heading %q", name, heading)
	}
	intro, rest, ok := strings.Cut(rest, header)
	if !ok {
		t.Fatalf("docs/%s has no table below %q", name, heading)
	}
	end := 0
	for l := range strings.Lines(rest) {
		if !strings.HasPrefix(l, "|") {
			break
		}
		end += len(l)
	}
	found := rest[:end]
	var want strings.Builder
	for _, f := range families {
		want.WriteString(line(f))
	}
	if found == want.String() {
		return
	}
	if *update {
		text = before + "\n### " + heading + "\n" + intro + header + want.String() + rest[end:]
		if err := os.WriteFile(File(t, "docs", name), []byte(text), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	for l := range strings.Lines(want.String()) {
		if !strings.Contains(found, l) {
			t.Errorf("docs/%s, %s: there is no line\n%s", name, heading, l)
		}
	}
	for l := range strings.Lines(found) {
		if !strings.Contains(want.String(), l) {
			t.Errorf("docs/%s, %s: nothing describes the line\n%s", name, heading, l)
		}
	}
	t.Errorf("docs/%s, %s: the order differs, or a line does: go test ./metrics/... -run TestDocument -update writes the tables", name, heading)
}

// line returns the row of a metric.
func line(f *expo.Family) string {
	labels := make([]string, len(f.Labels))
	for i, l := range f.Labels {
		labels[i] = "`" + l + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type(), strings.Join(labels, ", "), Unit(f.Name), f.Help)
}

// Unit returns the unit in a metric's name, "1" if there is none.
func Unit(name string) string {
	base := strings.TrimSuffix(name, "_total")
	for _, unit := range []string{"seconds", "bytes", "ratio"} {
		if strings.HasSuffix(base, "_"+unit) {
			return unit
		}
	}
	return "1"
}
