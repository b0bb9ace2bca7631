package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// reads are the methods of a store that write nothing.
func reads() []string {
	return []string{"Background", "Close", "Cold", "Do", "Follow", "Hot", "ID", "Node", "OutboxNews", "Ready", "Stats"}
}

// commands returns everything that writes: the types that are a store.Command, and the methods of a store.
func commands(t *testing.T) []string {
	t.Helper()
	var all []string
	files := parsed(t, "..")
	for _, f := range files {
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil && m.Name.Name == "command" {
				all = append(all, m.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool { // what contains a command is one, too
			if s, ok := n.(*ast.TypeSpec); ok && embeds(s, all) && s.Name.Name != "AuditRow" { // which is read
				all = append(all, s.Name.Name)
			}
			return true
		})
	}
	methods := reflect.TypeFor[store.Store]()
	for i := range methods.NumMethod() {
		if name := methods.Method(i).Name; !slices.Contains(reads(), name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// embeds reports whether a type is a struct that embeds one of some types.
func embeds(s *ast.TypeSpec, names []string) bool {
	in, ok := s.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(in.Fields.List, func(f *ast.Field) bool {
		id, plain := f.Type.(*ast.Ident)
		return len(f.Names) == 0 && plain && slices.Contains(names, id.Name)
	})
}

// parsed returns the files of a directory that are no tests of it.
func parsed(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestEveryCommandIsDecidedAbout: each command of the store stands in the table, once, and has a test of the suite. In the
// races and in the crash story it is where the table says so, and only there.
func TestEveryCommandIsDecidedAbout(t *testing.T) {
	table, races, crash := []string{}, []string{}, []string{}
	for _, p := range Proofs() {
		table = append(table, p.Command)
		if p.Races == "" {
			races = append(races, p.Command)
		}
		if p.Crash == "" {
			crash = append(crash, p.Command)
		}
	}
	slices.Sort(table)
	if all := commands(t); !slices.Equal(table, all) {
		t.Errorf("not in the table: %q; not in the store: %q; twice: %v", without(all, table), without(table, all), len(slices.Compact(slices.Clone(table))) < len(table))
	}
	var raced, killed []string
	for _, d := range deeds() {
		raced = append(raced, d.name)
	}
	for _, c := range onces() {
		raced = append(raced, c.names...)
	}
	for _, d := range durables() {
		killed = append(killed, d.names...)
	}
	killed = append(killed, storyCommands()...)
	for what, c := range map[string]struct{ said, done []string }{"races": {races, raced}, "crash": {crash, killed}} {
		if a, b := without(c.said, c.done), without(c.done, c.said); len(a)+len(b) > 0 {
			t.Errorf("%s: the table has %q, which nothing does; %q are done, and the table has a reason why not", what, a, b)
		}
	}
	if untested := without(table, used(t)); len(untested) > 0 {
		t.Errorf("no test of the suite uses %q", untested)
	}
}

// used returns what the suite calls or composes, outside races and crash story.
func used(t *testing.T) (names []string) {
	t.Helper()
	apart := []string{"world", "once", "durable", "crash.go", "races.go", "proofs.go"}
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if slices.ContainsFunc(apart, func(p string) bool { return strings.HasPrefix(filepath.Base(name), p) }) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				names = append(names, s.Sel.Name)
			}
			return true
		})
	}
	return names
}

// without returns what is in a and not in b, each once.
func without(a, b []string) (only []string) {
	for _, x := range a {
		if !slices.Contains(b, x) && !slices.Contains(only, x) {
			only = append(only, x)
		}
	}
	return only
}
