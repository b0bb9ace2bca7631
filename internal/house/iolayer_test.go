package house

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// ioLayer lists the packages between the engine and the kernel. No other package may use their types. The engine's own
// types decide what a listener, a connection or an attempt to connect does with a descriptor.
var ioLayer = []string{"/internal/sys", "/internal/poll", "/internal/backend", "/internal/wheel"}

// TestIOLayerIsHidden: no exported identifier of the packages that users import mentions a type of the I/O layer: no
// signature, no field, no method, no element of one.
func TestIOLayerIsHidden(t *testing.T) {
	root := moduleRoot(t)
	fset := token.NewFileSet()
	dirs := []string{".", "buf", "ring", "executor", "codec/delimiter", "codec/fixed", "codec/frame", "codec/lengthfield", "codec/line",
		"http1", "websocket", "tlsx", "relay", "rpc", "rpc/config", "metrics", "admin"}
	imports := compiled(t, fset, root, dirs...)
	for _, dir := range dirs {
		pkg, err := imports.Import(path.Join("github.com/go-eddy/eddy", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range leaksOf(pkg) {
			t.Errorf("%s: %s", dir, leak)
		}
	}
}

// TestIOLayerLeaksAreSeen: the check finds such mentions.
func TestIOLayerLeaksAreSeen(t *testing.T) {
	root := moduleRoot(t)
	const leaky = `package leaky
import "github.com/go-eddy/eddy/internal/sys"
type hidden struct{ P sys.Poller }
type Fine struct{ p sys.Poller }
func (f Fine) inner() sys.Poller { return f.p }
type Field struct{ P []map[string]*sys.Event }
type Method struct{}
func (Method) M(func(sys.Ready)) {}
type Embeds struct{ hidden }
func Result() <-chan sys.Poller { return nil }
var Var = sys.Read
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "leaky.go", leaky, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{Importer: compiled(t, fset, root, "internal/sys")}).Check("github.com/go-eddy/eddy/leaky", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaks := strings.Join(leaksOf(pkg), "\n")
	for _, want := range []string{"Field", "Method", "Embeds", "Result", "Var"} {
		if !strings.Contains(leaks, want+" ") {
			t.Errorf("%s is not seen in:\n%s", want, leaks)
		}
	}
	if strings.Contains(leaks, "Fine") {
		t.Errorf("what is not exported is no leak:\n%s", leaks)
	}
}

// compiled imports the exports of the packages in the directories and of their imports. The compiler has left them in
// the build cache when it built this test. They are those with the race detector if this test has it, because nothing
// else may have been built so far.
func compiled(t *testing.T, fset *token.FileSet, root string, dirs ...string) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	if info, _ := debug.ReadBuildInfo(); info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	list := exec.Command("go", args...)
	list.Dir = root
	var problems strings.Builder
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &problems)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[name] = file
	}
	return importer.ForCompiler(fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
}

// leaksOf names the exported identifiers of a package that mention the I/O layer.
func leaksOf(pkg *types.Package) (leaks []string) {
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if found := (&leakSearch{seen: map[types.Type]bool{}}).object(o); found != "" {
			leaks = append(leaks, name+" mentions "+found)
		}
	}
	return leaks
}

// leakSearch looks through everything that a user can reach from a type.
type leakSearch struct{ seen map[types.Type]bool }

func (s *leakSearch) object(o types.Object) string { return s.in(o.Type()) }

func (s *leakSearch) in(t types.Type) string {
	if t == nil || s.seen[t] {
		return ""
	}
	s.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		return s.named(t)
	case *types.Alias:
		return s.in(types.Unalias(t))
	case *types.Signature:
		return s.first(s.in(t.Params()), s.in(t.Results()))
	case *types.Tuple:
		for i := range t.Len() {
			if found := s.in(t.At(i).Type()); found != "" {
				return found
			}
		}
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() || f.Embedded() {
				if found := s.in(f.Type()); found != "" {
					return found
				}
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if m := t.Method(i); m.Exported() {
				if found := s.object(m); found != "" {
					return found
				}
			}
		}
	case *types.Map:
		return s.first(s.in(t.Key()), s.in(t.Elem()))
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		return s.in(t.Elem())
	}
	return ""
}

// named looks into a type of the module. Types of other modules cannot mention the layer.
func (s *leakSearch) named(t *types.Named) string {
	pkg := t.Obj().Pkg()
	if pkg == nil || !strings.HasPrefix(pkg.Path(), "github.com/go-eddy/eddy") {
		return ""
	}
	for _, layer := range ioLayer {
		if strings.Contains(pkg.Path()+"/", layer+"/") {
			return t.String()
		}
	}
	for i := range t.NumMethods() {
		if m := t.Method(i); m.Exported() {
			if found := s.object(m); found != "" {
				return found
			}
		}
	}
	return s.in(t.Underlying())
}

func (s *leakSearch) first(found ...string) string {
	for _, f := range found {
		if f != "" {
			return f
		}
	}
	return ""
}
