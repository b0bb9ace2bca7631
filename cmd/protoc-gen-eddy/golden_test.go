package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// TestGenerated: what the plugin writes for names that make trouble is known, and compiles beside the messages.
func TestGenerated(t *testing.T) {
	req := request("paths=source_relative", torture(), "b/ctx.proto", "a/torture.proto")
	files := contents(t, answer(t, req))
	code := files["a/torture_eddy.pb.go"]
	if len(files) != 1 || code == "" {
		t.Fatalf("%d files, %q", len(files), code)
	}
	same(t, "testdata/torture_eddy.pb.go.golden", code)
	sources := messages(t, req)
	sources["example.com/torture"] = append(sources["example.com/torture"], code)
	free := contents(t, answer(t, request("paths=source_relative,require_unimplemented_servers=false", torture(), "a/torture.proto")))
	c := &checker{t: t, fset: token.NewFileSet(), checked: map[string]*types.Package{}}
	c.others = compiled(t, c.fset)
	for _, path := range []string{"example.com/ctx", "example.com/torture"} {
		c.check(path, sources[path])
	}
	c.check("example.com/torture", append(sources["example.com/torture"][:1:1], free["a/torture_eddy.pb.go"]))
}

// TestPackageNames: the code compiles whatever the packages are called that it is in and that its messages are in.
func TestPackageNames(t *testing.T) {
	c := &checker{t: t, fset: token.NewFileSet(), checked: map[string]*types.Package{}}
	c.others = compiled(t, c.fset)
	for _, base := range strings.Fields("ctx req in out opts c s srv svc key caller err rpc context cmp errors string nil Any greeterClient type go_package v2") {
		far, near := "example.com/far/"+base, "example.com/near/"+base
		file := declares("p", near, nil, "Greeter:One Down Up Both")
		file.Dependency = []string{"q.proto"}
		for i, m := range file.Service[0].Method {
			m.InputType, m.OutputType = proto.String(".q.M"), proto.String(".q.M")
			m.ServerStreaming, m.ClientStreaming = proto.Bool(i&1 != 0), proto.Bool(i&2 != 0)
		}
		req := request("", []*descriptorpb.FileDescriptorProto{declares("q", far, nil), file}, "q.proto", "p.proto")
		sources := messages(t, req)
		c.check(far, sources[far])
		for _, code := range contents(t, answer(t, req)) {
			c.check(near, append(sources[near], code))
		}
		if t.Failed() {
			t.Fatalf("in packages called %s", base)
		}
	}
}

// messages returns what protoc-gen-go writes, by Go package.
func messages(t *testing.T, req *pluginpb.CodeGeneratorRequest) map[string][]string {
	t.Helper()
	p, err := protogen.Options{}.New(req)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]string{}
	for _, f := range p.Files {
		if !f.Generate {
			continue
		}
		code, err := gengo.GenerateFile(p, f).Content()
		if err != nil {
			t.Fatal(err)
		}
		sources[string(f.GoImportPath)] = append(sources[string(f.GoImportPath)], string(code))
	}
	return sources
}

// checker checks the types of packages that are in no directory.
type checker struct {
	t       *testing.T
	fset    *token.FileSet
	checked map[string]*types.Package
	others  types.Importer
}

// Import implements types.Importer.
func (c *checker) Import(path string) (*types.Package, error) {
	if pkg := c.checked[path]; pkg != nil {
		return pkg, nil
	}
	return c.others.Import(path)
}

func (c *checker) check(path string, sources []string) {
	c.t.Helper()
	var files []*ast.File
	for _, code := range sources {
		f, err := parser.ParseFile(c.fset, path+".go", code, parser.ParseComments)
		if err != nil {
			c.t.Fatalf("%v in\n%s", err, code)
		}
		files = append(files, f)
	}
	config := types.Config{Importer: c, Error: func(err error) { c.t.Error(err) }}
	c.checked[path], _ = config.Check(path, c.fset, files, nil) // Error has told
}

// compiled imports the exports of what generated code imports, as the compiler has left them in the build cache.
func compiled(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	list, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(list[path]) })
}

// exports returns the files with the exports, by package.
var exports = sync.OnceValues(func() (map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	if info, _ := debug.ReadBuildInfo(); info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	list := exec.Command("go", append(args, "../../rpc", "google.golang.org/protobuf/runtime/protoimpl", "google.golang.org/protobuf/types/known/emptypb")...)
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &problems)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return files, nil
})
