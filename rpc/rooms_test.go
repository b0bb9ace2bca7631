package rpc

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

// below says what the files of a room may name besides their own definitions. The room of a file is the first word of
// its name; files of no room are shared.
var below = map[string][]string{
	"client": {"event", "shared"},
	"server": {"event", "shared"},
	"event":  {"shared"},
	"shared": {},
}

// TestRooms: client and server name no definition of each other, events none of either, and what they share none of all
// three.
func TestRooms(t *testing.T) {
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
	bad, seen := intrusions(fset, files)
	for _, line := range bad {
		t.Error(line)
	}
	for room := range below {
		if seen[room] == 0 {
			t.Errorf("no reference to a definition of %s was found: the test sees nothing", room)
		}
	}
}

// TestRoomsAreTold: references to types, functions, methods and fields of another room are found.
func TestRoomsAreTold(t *testing.T) {
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, source := range [][2]string{
		{"client_x.go", "type C struct{ s *S }; func (c *C) Do() { c.s.n = c.s.Get(); limit() }"},
		{"server.go", "type S struct{ n int }; func (s *S) Get() int { return size }"},
		{"event_x.go", "func limit() { _ = S{} }"},
		{"other.go", "const size = 1; var _ C"},
	} {
		f, err := parser.ParseFile(fset, source[0], "package rpc; "+source[1], 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	bad, seen := intrusions(fset, files)
	slices.Sort(bad)
	want := []string{
		"client_x.go names Get of server.go", "client_x.go names S of server.go", "client_x.go names n of server.go",
		"event_x.go names S of server.go", "other.go names C of client_x.go",
	}
	if !slices.Equal(bad, want) || seen["event"] != 1 || seen["shared"] != 1 {
		t.Errorf("%q, %v", bad, seen)
	}
}

// intrusions returns the references that below does not allow, and how many references of other files each room has.
// What the files import is not looked at.
func intrusions(fset *token.FileSet, files []*ast.File) (bad []string, seen map[string]int) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check("rpc", fset, files, info) // the only errors are about imports
	seen = map[string]int{}
	for id, o := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(o.Pos()).Filename
		if o.Pkg() != pkg || from == to || to == "" {
			continue
		}
		seen[roomOf(to)]++
		line := fmt.Sprintf("%s names %s of %s", from, o.Name(), to)
		if roomOf(from) != roomOf(to) && !slices.Contains(below[roomOf(from)], roomOf(to)) && !slices.Contains(bad, line) {
			bad = append(bad, line)
		}
	}
	return bad, seen
}

func roomOf(file string) string {
	first, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
	if _, ok := below[first]; ok {
		return first
	}
	return "shared"
}

// noImports is an importer that has nothing.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, errors.New("no " + path) }
