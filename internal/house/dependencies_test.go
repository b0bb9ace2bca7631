package house

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var modulePattern = regexp.MustCompile(`(?m)^\| ([a-z0-9.]+\.[a-z]+/[^ |]+) \|`)

// TestDependenciesAreExplained looks for every imported module in docs/dependencies.md, and for rows of modules that nothing imports any more.
func TestDependenciesAreExplained(t *testing.T) {
	root := moduleRoot(t)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range modulePattern.FindAllStringSubmatch(string(doc), -1) {
		used[m[1]] = false
	}
	err = goFiles(root, func(rel string) error {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, rel), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if m, ok := explainedBy(imp, used); ok {
				used[m] = true
			} else if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && imp != module && !strings.HasPrefix(imp, module+"/") {
				t.Errorf("%s imports %s, which docs/dependencies.md does not explain", rel, imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for m, seen := range used {
		if !seen {
			t.Errorf("docs/dependencies.md explains %s, which nothing imports", m)
		}
	}
}

// explainedBy returns the module of the table that an import belongs to.
func explainedBy(imp string, modules map[string]bool) (string, bool) {
	for m := range modules {
		if imp == m || strings.HasPrefix(imp, m+"/") {
			return m, true
		}
	}
	return "", false
}
