package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func packages(t *testing.T) []pkg {
	t.Helper()
	t.Chdir(root)
	all, err := listAll(plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%d packages with tests: the list is broken", len(all))
	}
	return all
}

// TestEveryPackageOnce: each package with tests is in exactly one run of the gate on the best poller, and each folder that the plan
// names is there.
func TestEveryPackageOnce(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		var in []string
		for _, r := range plan {
			if r.poller == "" && !r.long && r.about(p) {
				in = append(in, r.name)
			}
		}
		in = slices.DeleteFunc(in, func(name string) bool { return name == "holes" || name == "postgres" }) // the same beside something else
		if len(in) != 1 {
			t.Errorf("package %s is in the runs %q, want one", p.folder, in)
		}
	}
	var named []string
	for _, r := range plan {
		named = append(append(named, r.packages...), r.modules...)
		if _, ok := builds[r.build]; !ok || r.why == "" {
			t.Errorf("run %s has the build %q and the reason %q", r.name, r.build, r.why)
		}
		if _, err := regexp.Compile(r.skip); err != nil {
			t.Errorf("run %s: %v", r.name, err)
		}
	}
	if made := slices.Sorted(slices.Values(buildOrder)); !slices.Equal(made, slices.Sorted(maps.Keys(builds))) {
		t.Errorf("the builds %q are made", made)
	}
	for _, n := range named {
		if !slices.ContainsFunc(all, func(p pkg) bool { return holds([]string{n}, p.folder) }) {
			t.Errorf("the plan names %s, which has no tests", n)
		}
	}
	for _, l := range longest {
		if !slices.ContainsFunc(programs("", plan, all), func(p program) bool { return p.name() == l }) {
			t.Errorf("%q is among the longest and not in the plan", l)
		}
	}
}

// TestSkippedTestsExist: each name of a test that is left out on other backends begins the name of one that is there.
func TestSkippedTestsExist(t *testing.T) {
	var source strings.Builder
	for _, folder := range engine {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, name := range strings.Split(strings.Trim(noPoller, "^()"), "|") {
		if !strings.Contains(source.String(), "\nfunc "+name) {
			t.Errorf("no test begins with %s", name)
		}
	}
}

// TestGroups: what is built by one command has different names, and nothing is built twice.
func TestGroups(t *testing.T) {
	list := programs("/tmp", plan, []pkg{
		{module: ".", folder: ".", path: "m/eddy"}, {module: ".", folder: "cmd/eddy", path: "m/eddy/cmd/eddy"}, {module: ".", folder: "rpc", path: "m/eddy/rpc"},
		{module: ".", folder: "codec/frame", path: "m/eddy/codec/frame"}, {module: ".", folder: "examples/frame", path: "m/eddy/examples/frame"},
		{module: "otel", folder: "otel", path: "m/eddy/otel"}, {module: "interop", folder: "interop", path: "m/eddy/interop"},
	})
	var got []string
	for _, build := range []string{"race", "plain", "debug"} {
		for _, g := range groups(build, list) {
			names := []string{build}
			for _, p := range g {
				names = append(names, p.pkg.folder)
			}
			got = append(got, strings.Join(names, " "))
		}
	}
	want := []string{"race . rpc codec/frame", "race cmd/eddy", "plain cmd/eddy examples/frame rpc", "plain .", "plain otel", "plain interop", "debug . rpc codec/frame"}
	if !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	if first := list[0].name(); first != "apps cmd/eddy" {
		t.Errorf("%s is the first", first)
	}
}

// TestPlanIsDocumented: docs/testing.md shows the plan as it is.
func TestPlanIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table()) {
		t.Errorf("docs/testing.md lacks this table (go run ./scripts/gate -plan):\n%s", table())
	}
}

// TestCommand: a run that the plan lacks is an error, and the plan can be seen.
func TestCommand(t *testing.T) {
	t.Chdir(root)
	if ok, err := gate(options{}, []string{"no-such-run"}); ok || err == nil || !strings.Contains(err.Error(), "no-such-run") {
		t.Errorf("%v, %v", ok, err)
	}
	out, err := exec.Command("go", "run", "./scripts/gate", "-plan").Output()
	if err != nil || string(out) != table() {
		t.Errorf("%q, %v", out, err)
	}
}
