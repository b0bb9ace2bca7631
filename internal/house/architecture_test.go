package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRolesHaveHomes follows the table of roles in ARCHITECTURE.md: each type is declared in one of the files beside it, and the roles of
// a server that must be components of their own are all there.
func TestRolesHaveHomes(t *testing.T) {
	root := moduleRoot(t)
	doc, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "| role | type | file |\n|---|---|---|\n")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no table of roles")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 3 {
			t.Errorf("row %q has %d cells", row, len(cells))
			continue
		}
		declared := map[string]bool{}
		for _, file := range strings.Split(cells[2], ", ") {
			addTypes(t, declared, filepath.Join(root, filepath.FromSlash(file)))
		}
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
			if !declared[name[1]] {
				t.Errorf("%s: type %s is not declared in %s", cells[0], name[1], cells[2])
			}
		}
	}
	for _, role := range []string{"connection state", "work that may block", "timers", "listening", "numbers and logs"} {
		if !strings.Contains(table, "| "+role) {
			t.Errorf("the table names no home of %q", role)
		}
	}
}

// addTypes notes the types that a file declares.
func addTypes(t *testing.T, types map[string]bool, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				types[s.(*ast.TypeSpec).Name.Name] = true
			}
		}
	}
}

// TestReadinessIsExplained: the documents tell a reactor from a proactor, and say which one this is.
func TestReadinessIsExplained(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "loops.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"## Readiness, not completion", "**reactor**", "**proactor**", "level-triggered", "IOCP"} {
		if !strings.Contains(string(doc), word) {
			t.Errorf("docs/loops.md does not say %q", word)
		}
	}
}
