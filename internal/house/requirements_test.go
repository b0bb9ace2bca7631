package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirements is the highest id that docs/requirements.md must have. The ids begin with R001; 268 and 269 were never given.
const requirements = 281

// required reports whether there is a requirement of that number.
func required(n int) bool { return n != 268 && n != 269 }

var (
	rowPattern  = regexp.MustCompile(`^\| *(R\d{3}) *\|([^|]*)\|([^|]*)\|`)
	testPattern = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*$`)
	funcPattern = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)\(`)
)

// A row of docs/requirements.md; tests is empty while the requirement is open.
type row struct {
	id       string
	packages []string // directories relative to the module root
	tests    []string
}

// parseRows reads the table rows of the document and reports malformed ones.
func parseRows(doc string) (rows []row, problems []string) {
	for _, line := range strings.Split(doc, "\n") {
		m := rowPattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := row{id: m[1], packages: list(m[2]), tests: list(m[3])}
		switch {
		case len(r.tests) == 0:
			problems = append(problems, r.id+": no test named and not marked open")
		case slices.Equal(r.tests, []string{"open"}):
			r.tests = nil
			if len(r.packages) > 0 {
				problems = append(problems, r.id+": names a package although it is open")
			}
		case len(r.packages) == 0:
			problems = append(problems, r.id+": names tests but no package")
		}
		rows = append(rows, r)
	}
	return rows, problems
}

// list splits a cell such as "`TestA`, `TestB`".
func list(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == ' ' || r == ',' || r == '`' })
}

// checkRows checks the rows against the required ids and the existing tests, by package directory.
func checkRows(rows []row, tests map[string]map[string]bool) (problems []string) {
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.id]++
		for _, name := range r.tests {
			if !testPattern.MatchString(name) {
				problems = append(problems, fmt.Sprintf("%s: %q is not the name of a test", r.id, name))
			} else if !existsIn(tests, r.packages, name) {
				problems = append(problems, fmt.Sprintf("%s: no %s in package %s", r.id, name, strings.Join(r.packages, ", ")))
			}
		}
	}
	for i := 1; i <= requirements; i++ {
		id := fmt.Sprintf("R%03d", i)
		if !required(i) {
			continue
		}
		if seen[id] != 1 {
			problems = append(problems, fmt.Sprintf("%s: stands %d times, want once", id, seen[id]))
		}
		delete(seen, id)
	}
	for id := range seen {
		problems = append(problems, id+": no such requirement")
	}
	return problems
}

func existsIn(tests map[string]map[string]bool, packages []string, name string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		if p == "eddy" {
			p = "."
		}
		return tests[p][name]
	})
}

// testFunctions finds every test, fuzz target, benchmark and example of the tree, nested modules included, by package directory.
func testFunctions(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if found[dir] == nil {
			found[dir] = map[string]bool{}
		}
		for _, m := range funcPattern.FindAllStringSubmatch(string(src), -1) {
			found[dir][m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestRequirementsTable checks docs/requirements.md: it has every id once, and every test that it names exists.
func TestRequirementsTable(t *testing.T) {
	root := moduleRoot(t)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := parseRows(string(doc))
	problems = append(problems, checkRows(rows, testFunctions(t, root))...)
	for _, p := range problems {
		t.Errorf("docs/requirements.md: %s", p)
	}
	proved := 0
	for _, r := range rows {
		if len(r.tests) > 0 {
			proved++
		}
	}
	t.Logf("%d of %d requirements proved", proved, requirements)
}

// TestRequirementsRules shows that each kind of mistake in the table is found.
func TestRequirementsRules(t *testing.T) {
	tests := map[string]map[string]bool{".": {"TestHere": true}, "buf": {"FuzzBuf": true}}
	all := func(skip int, extra ...string) string {
		lines := slices.Clone(extra)
		for i := 1; i <= requirements; i++ {
			if i != skip && required(i) {
				lines = append(lines, fmt.Sprintf("| R%03d | | open | words |", i))
			}
		}
		return strings.Join(lines, "\n")
	}
	for _, c := range []struct{ name, doc, want string }{
		{"clean", all(0), ""},
		{"proved", all(7, "| R007 | eddy, buf | `TestHere`, FuzzBuf | words |"), ""},
		{"missing", all(7), "R007: stands 0 times"},
		{"twice", all(0, "| R007 | | open | words |"), "R007: stands 2 times"},
		{"unknown id", all(0, "| R282 | | open | words |"), "R282: no such requirement"},
		{"unknown test", all(7, "| R007 | eddy | TestGone | words |"), "R007: no TestGone in package eddy"},
		{"wrong package", all(7, "| R007 | buf | TestHere | words |"), "R007: no TestHere in package buf"},
		{"not a test", all(7, "| R007 | eddy | yes | words |"), `R007: "yes" is not the name of a test`},
		{"empty", all(7, "| R007 | eddy | | words |"), "R007: no test named"},
		{"no package", all(7, "| R007 | | TestHere | words |"), "R007: names tests but no package"},
		{"open with package", all(7, "| R007 | eddy | open | words |"), "R007: names a package although it is open"},
	} {
		rows, problems := parseRows(c.doc)
		problems = append(problems, checkRows(rows, tests)...)
		got := strings.Join(problems, "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: problems %q, want %q", c.name, got, c.want)
		}
	}
}
