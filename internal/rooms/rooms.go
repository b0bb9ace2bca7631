// Package rooms checks, for tests, which files of a package name definitions of which others.
package rooms

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Plan puts the files of a package into rooms.
type Plan struct {
	Of    func(file string) string // the room of a file
	Below map[string][]string      // for each room those that it may name besides itself
}

// Check reports references that the plan does not allow in the package of the working directory, tests apart, and rooms
// without a reference to them, about which the check would be blind.
func (p Plan) Check(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	bad, seen := p.intrusions(fset, files)
	for _, line := range bad {
		t.Error(line)
	}
	for room := range p.Below {
		if seen[room] == 0 {
			t.Errorf("no reference to a definition of %s was found: the test sees nothing", room)
		}
	}
}

// intrusions returns the references that the plan does not allow, and how many references of other files each room has.
// What the files import is not looked at.
func (p Plan) intrusions(fset *token.FileSet, files []*ast.File) (bad []string, seen map[string]int) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check(files[0].Name.Name, fset, files, info) // the only errors are about imports
	seen = map[string]int{}
	for id, o := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(o.Pos()).Filename
		if o.Pkg() != pkg || from == to || to == "" {
			continue
		}
		here, there := p.Of(from), p.Of(to)
		seen[there]++
		line := fmt.Sprintf("%s names %s of %s", from, o.Name(), to)
		if here != there && !slices.Contains(p.Below[here], there) && !slices.Contains(bad, line) {
			bad = append(bad, line)
		}
	}
	slices.Sort(bad)
	return bad, seen
}

// noImports is an importer that has nothing.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, errors.New("no " + path) }
