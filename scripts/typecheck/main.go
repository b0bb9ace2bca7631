// Command typecheck checks the types of packages as other systems have them, with their tests or, with -tests=false, without. It reads
// source and compiles nothing, which takes a fiftieth of what "go vet" takes where no package of that system is built yet.
//
//	go run ./scripts/typecheck darwin/arm64,windows/amd64 . ./internal/...
//
// It prints each error with its system, and exits with 1 if there is one.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

func main() {
	tests := flag.Bool("tests", true, "check the tests, too")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck [-tests=false] SYSTEM/PROCESSOR[,...] PACKAGE...")
		os.Exit(2)
	}
	systems := strings.Split(flag.Arg(0), ",")
	results := make([]error, len(systems))
	var all sync.WaitGroup
	for i, system := range systems {
		all.Go(func() {
			checked, err := check(system, *tests, flag.Args()[1:])
			if err == nil {
				fmt.Printf("%s: %d packages\n", system, checked)
			}
			results[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(results...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A listed package is what "go list" says of it.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string // from the path in the source to the package's, where they differ
	DepOnly         bool              // only imported by what was named
}

// A checker has the packages of one system.
type checker struct {
	system string
	sizes  types.Sizes
	files  *token.FileSet
	done   map[string]*types.Package
	errs   []error
}

// check returns how many of the packages that patterns name were checked for the system, those with tests twice, and what is wrong with them.
func check(system string, tests bool, patterns []string) (int, error) {
	goos, goarch, _ := strings.Cut(system, "/")
	c := &checker{
		system: system,
		sizes:  types.SizesFor("gc", goarch),
		files:  token.NewFileSet(),
		done:   map[string]*types.Package{"unsafe": types.Unsafe},
	}
	if c.sizes == nil {
		return 0, fmt.Errorf("%s: no processor %q", system, goarch)
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-test=" + strconv.FormatBool(tests), "-json=Dir,ImportPath,GoFiles,ImportMap,DepOnly"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: go list: %w\n%s", system, err, &said)
	}
	checked := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; { // what is imported comes first
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return 0, fmt.Errorf("%s: go list: %w", system, err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // a main package that "go test" writes
			continue
		}
		c.check(p)
		if !p.DepOnly {
			checked++
		}
	}
	if checked == 0 {
		return 0, fmt.Errorf("%s: no packages are in %s", system, strings.Join(patterns, " "))
	}
	return checked, errors.Join(c.errs...)
}

// check checks one package. The bodies of functions are read where the package was named.
func (c *checker) check(p listed) {
	fail := func(err error) { c.errs = append(c.errs, fmt.Errorf("%s: %w", c.system, err)) }
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			fail(err)
			return
		}
		files = append(files, f)
	}
	conf := types.Config{
		Importer:         imports{c, p.ImportMap},
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.DepOnly,
		Error:            fail,
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")    // a package with its tests is "path [path.test]"
	pkg, _ := conf.Check(path, c.files, files, nil) // Error has what is wrong
	c.done[p.ImportPath] = pkg
}

// imports finds the packages that another one imports.
type imports struct {
	*checker
	as map[string]string
}

func (i imports) Import(path string) (*types.Package, error) {
	if as, ok := i.as[path]; ok {
		path = as
	}
	if pkg := i.done[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %q", path)
}
