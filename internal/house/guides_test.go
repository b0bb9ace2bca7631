package house

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tableOf returns the cells of the rows below a header line of a document.
func tableOf(t *testing.T, name, header string) (rows [][]string) {
	t.Helper()
	_, table, ok := strings.Cut(document(t, name), "\n"+header+"\n")
	if !ok {
		t.Fatalf("%s has no table %q", name, header)
	}
	for i, line := range strings.Split(table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i == 0 {
			continue // the line of hyphens
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if want := strings.Count(header, "|") - 1; len(cells) != want {
			t.Fatalf("%s: a row of %d cells, want %d: %s", name, len(cells), want, line)
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestDecisionGuide: the guide answers its seven situations, each with a choice, a reason and the case against it, and one of them says
// goroutines for many simple blocking operations (R232).
func TestDecisionGuide(t *testing.T) {
	rows := tableOf(t, "docs/when-not.md", "| situation | take | why | and when not |")
	situations := []string{"a custom binary protocol", "HTTP", "TLS-heavy", "learning how it works", "fast delivery of a product", "debugging internals of the transport", "many simple blocking operations"}
	if len(rows) != len(situations) {
		t.Fatalf("%d situations, want %d", len(rows), len(situations))
	}
	forGoroutines := 0
	for i, row := range rows {
		if row[0] != situations[i] || row[1] == "" || row[2] == "" || row[3] == "" {
			t.Errorf("situation %d: %q, want %s with an answer", i+1, row, situations[i])
		}
		if !strings.HasPrefix(row[1], "Eddy") {
			forGoroutines++
		}
	}
	if rows[6][1] != "goroutines" || forGoroutines < 4 {
		t.Errorf("the guide is not honest: %d of 7 without Eddy, %q for blocking operations", forGoroutines, rows[6][1])
	}
	bench := document(t, "bench/README.md")
	for _, figure := range []string{"0.72", "0.89", "7711", "440", "19547", "1108", "1.95", "2.37", "0.42", "0.71", "0.45", "0.62", "0.73"} {
		if !strings.Contains(bench, figure) {
			t.Errorf("docs/when-not.md quotes %s, which bench/README.md no longer has", figure)
		}
	}
}

// TestTopologyGuide: docs/loops.md says of each topology what it is good for and what its risks are, and how to choose, with figures that were
// measured (R233).
func TestTopologyGuide(t *testing.T) {
	topologies := []string{"`BossWorkers` (default)", "`SingleReactor`", "`ListenerPerLoop`"}
	if n := len(topologies); eddy.Topology(n-1) != eddy.ListenerPerLoop {
		t.Errorf("the guide knows %d topologies", n)
	}
	rows := tableOf(t, "docs/loops.md", "| `Server.Topology` | good for | risks |")
	if len(rows) != len(topologies) {
		t.Fatalf("%d topologies", len(rows))
	}
	for i, row := range rows {
		if row[0] != topologies[i] || row[1] == "" || row[2] == "" {
			t.Errorf("%q", row)
		}
	}
	_, guide, ok := strings.Cut(document(t, "docs/loops.md"), "### Which one\n")
	guide, _, ends := strings.Cut(guide, "\n## ")
	if !ok || !ends {
		t.Fatal("docs/loops.md does not say which one")
	}
	bench := document(t, "bench/README.md")
	for _, figure := range regexp.MustCompile(`\b0\.\d\d\b`).FindAllString(guide, -1) {
		if !strings.Contains(bench, "| "+figure+" (") {
			t.Errorf("docs/loops.md quotes %s, which bench/README.md does not have", figure)
		}
	}
	for _, word := range []string{"SingleReactor", "ListenerPerLoop", "BossWorkers", "0.71", "0.69", "0.45"} {
		if !strings.Contains(guide, word) {
			t.Errorf("the guide does not say %s", word)
		}
	}
}

// TestEveryRoomHasOneResponsibility: docs/model.md has every public package and the rooms under them. Each of them says
// in its own documentation what it is for. Every part that the page names is declared where it says (R240).
func TestEveryRoomHasOneResponsibility(t *testing.T) {
	root := moduleRoot(t)
	listed := map[string]bool{}
	for _, row := range tableOf(t, "docs/model.md", "| room | does | does not |") {
		name := strings.Trim(row[0], "`")
		listed[name] = true
		if row[1] == "" || row[2] == "" {
			t.Errorf("%s: %q", name, row)
		}
		if s := synopsis(t, filepath.Join(root, filepath.FromSlash(name))); s == "" {
			t.Errorf("the package in %s does not say what it is for", name)
		}
	}
	for _, dir := range rooms(t, root) {
		if !listed[dir] {
			t.Errorf("docs/model.md does not have %s", dir)
		}
	}
	for _, row := range tableOf(t, "docs/model.md", "| part | its only responsibility | file |") {
		declared := map[string]bool{}
		addTypes(t, declared, filepath.Join(root, row[2]))
		if name := strings.Trim(row[0], "`"); !declared[name] || row[1] == "" {
			t.Errorf("%s is not declared in %s, or has no responsibility: %q", name, row[2], row[1])
		}
	}
}

// rooms are the public packages that others build on: not commands, examples, benchmarks, nor the applications' own parts.
func rooms(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		for _, other := range []string{"cmd", "examples", "desk", "docs", "rpc/config", "metrics/deskmetrics", "metrics/internal"} {
			if rel == other {
				return filepath.SkipDir
			}
		}
		if rel != "." && (path.Base(rel) == "internal" || path.Base(rel) == "testdata") {
			return filepath.SkipDir
		}
		if err := skipDir(root, p, d.Name()); err != nil {
			return err
		}
		if files, err := filepath.Glob(filepath.Join(p, "*.go")); err != nil || len(files) == 0 {
			return err
		}
		dirs = append(dirs, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 10 {
		t.Fatalf("only %v found", dirs)
	}
	return dirs
}

// synopsis returns the first paragraph of a package's documentation.
func synopsis(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc == nil {
			continue
		}
		if d := new(comment.Parser).Parse(f.Doc.Text()); len(d.Content) > 0 {
			return f.Doc.Text()
		}
	}
	return ""
}
