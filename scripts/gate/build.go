package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is a package with tests.
type pkg struct {
	module string // its folder, "." for the one of the repository's root
	folder string // relative to the repository's root, "." for the root itself
	path   string // as imported
	dir    string
}

// listAll returns the packages with tests of the root's module and of those that runs name.
func listAll(runs []run) ([]pkg, error) {
	modules := []string{"."}
	for _, r := range runs {
		for _, m := range r.modules {
			if !slices.Contains(modules, m) {
				modules = append(modules, m)
			}
		}
	}
	var all []pkg
	for _, m := range modules {
		list, err := listPackages(m)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// listPackages returns the packages of the module in that folder that have tests.
func listPackages(module string) ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Module,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, e.Stderr)
		}
		return nil, fmt.Errorf("go list in %s: %w", module, err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath           string
			Module                    struct{ Path string }
			TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		all = append(all, pkg{module: module, folder: path.Join(module, folder), path: p.ImportPath, dir: p.Dir})
	}
}

// A program is a test binary in one row of the plan.
type program struct {
	run run
	pkg pkg
	bin string
}

func (p program) name() string { return p.run.name + " " + p.pkg.folder }

// programs are the test binaries that the runs need, the longest first. Each build of a package is in one file, whatever
// number of runs use it.
func programs(dir string, runs []run, all []pkg) []program {
	var list []program
	for _, r := range runs {
		for _, p := range all {
			if r.about(p) {
				place := filepath.Join(dir, r.build, strings.NewReplacer("/", "_", ".", "_").Replace(p.folder))
				list = append(list, program{run: r, pkg: p, bin: filepath.Join(place, path.Base(p.path)+".test")})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b program) int { return rank(a) - rank(b) })
	return list
}

func rank(p program) int {
	if i := slices.Index(longest, p.name()); i >= 0 {
		return i
	}
	return len(longest)
}

// most bounds how many programs one command builds, so that the first can run while others are built.
const most = 32

// compile builds the eddy command that the programs' children are, then the programs, and tells ready of those that can run. The plain ones come first: vet has
// compiled what they are linked from. No debugger looks at the programs, and linking without its tables takes three fifths of the time.
func compile(dir string, list []program, command string, ready func(...program)) error {
	if err := goTool(".", "build", "-o", command, "./cmd/eddy"); err != nil {
		return err
	}
	for _, build := range buildOrder {
		for _, group := range groups(build, list) {
			for part := range slices.Chunk(group, most) {
				if err := compileGroup(dir, build, part); err != nil {
					return err
				}
				for _, p := range list {
					if slices.ContainsFunc(part, func(o program) bool { return o.bin == p.bin }) {
						ready(p)
					}
				}
			}
		}
	}
	return nil
}

// compileGroup builds programs of one group.
func compileGroup(dir, build string, group []program) error {
	tmp, err := os.MkdirTemp(dir, build+"-")
	if err != nil {
		return err
	}
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", tmp + string(filepath.Separator)}, builds[build]...)
	for _, p := range group {
		args = append(args, p.pkg.path)
	}
	if err := goTool(group[0].pkg.module, args...); err != nil {
		return err
	}
	for _, p := range group {
		if err := os.MkdirAll(filepath.Dir(p.bin), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(tmp, filepath.Base(p.bin)), p.bin); err != nil {
			return err
		}
	}
	return nil
}

// groups are the programs of one build, each once, in as few groups as can be built by one command: those of a group are of one
// module, and no two have the same name.
func groups(build string, list []program) (all [][]program) {
	done := map[string]bool{}
next:
	for _, p := range list {
		if p.run.build != build || done[p.bin] {
			continue
		}
		done[p.bin] = true
		for i, g := range all {
			if g[0].pkg.module == p.pkg.module && !slices.ContainsFunc(g, func(o program) bool { return filepath.Base(o.bin) == filepath.Base(p.bin) }) {
				all[i] = append(g, p)
				continue next
			}
		}
		all = append(all, []program{p})
	}
	return all
}

// goTool builds what is in the module of that folder. The compilers' collector takes an eighth of their time as it is.
func goTool(module string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOGC=400")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
