package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a gate whose programs end as a script says: for each "run folder" or "run folder Test" the outputs in order,
// "" for a pass. What the script does not name passes.
type scripted struct {
	*gateRun
	out   bytes.Buffer
	calls []string
	ends  map[string][]string
	green bool
}

func play(t *testing.T, ends map[string][]string, o options, names ...string) *scripted {
	t.Helper()
	s := &scripted{ends: ends}
	o.beside = 1
	o.rounds = max(o.rounds, 1)
	var list []program
	for _, name := range names {
		run, folder, _ := strings.Cut(name, " ")
		list = append(list, program{run: run1(run), pkg: pkg{folder: folder, dir: t.TempDir()}, bin: name})
	}
	s.gateRun = &gateRun{options: o, out: &s.out, exec: func(_ string, env []string, bin string, args ...string) result {
		key := bin
		for _, a := range args {
			if test, ok := strings.CutPrefix(a, "-test.run=^"); ok {
				key += " " + strings.TrimSuffix(test, "$")
			}
		}
		s.calls = append(s.calls, key)
		if len(s.ends[key]) == 0 {
			return result{}
		}
		output := s.ends[key][0]
		s.ends[key] = s.ends[key][1:]
		return result{output: output, failed: output != ""}
	}}
	green, err := s.built(list, func(ready func(...program)) error {
		ready(list...)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	s.green = green
	return s
}

func run1(name string) run { return run{name: name, build: "plain"} }

func (s *scripted) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.calls, want) {
		t.Errorf("ran %q, want %q", s.calls, want)
	}
}

func (s *scripted) want(t *testing.T, green bool, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(s.out.String(), l) {
			t.Errorf("no %q in:\n%s", l, &s.out)
		}
	}
	if s.green != green {
		t.Errorf("green %v, want %v:\n%s", s.green, green, &s.out)
	}
}

const broken = "some log\n--- FAIL: TestA (0.01s)\n    a_test.go:7: wrong\n    --- FAIL: TestA/sub (0.00s)\nFAIL\n"

// TestGreen: what passes runs once.
func TestGreen(t *testing.T) {
	s := play(t, nil, options{}, "race x", "race y")
	s.wantCalls(t, "race x", "race y")
	s.want(t, true, "2 passed, 0 failed")
}

// TestRedTwice: a test that fails again is red, and its output is shown both times.
func TestRedTwice(t *testing.T) {
	s := play(t, map[string][]string{"race x": {broken}, "race x TestA": {"once more wrong\n--- FAIL: TestA (0.00s)\n"}}, options{}, "race x", "race y")
	s.wantCalls(t, "race x", "race y", "race x TestA")
	s.want(t, false, "a_test.go:7: wrong", "FAIL race x ", "once more wrong", "FAIL again: race x TestA", "1 passed, 1 failed")
	if strings.Contains(s.out.String(), "unsteady") {
		t.Errorf("told as unsteady:\n%s", &s.out)
	}
}

// TestRedTheSecondTime: both of the second looks have to pass.
func TestRedTheSecondTime(t *testing.T) {
	s := play(t, map[string][]string{"race x": {broken}, "race x TestA": {"", broken}}, options{}, "race x")
	s.wantCalls(t, "race x", "race x TestA", "race x TestA")
	s.want(t, false, "FAIL again: race x TestA")
}

// TestUnsteady: a test that passes twice alone is named, with its first output kept, and the gate is green; more than
// three make it red.
func TestUnsteady(t *testing.T) {
	for n, green := range map[int]bool{1: true, 3: true, 4: false} {
		ends, file := map[string][]string{}, filepath.Join(t.TempDir(), "unsteady")
		var names []string
		for i := range n {
			name := fmt.Sprintf("race x%d", i)
			ends[name] = []string{broken}
			names = append(names, name)
		}
		s := play(t, ends, options{unsteady: file}, names...)
		s.want(t, green, "a_test.go:7: wrong", "unsteady: race x0 TestA")
		told, err := os.ReadFile(file)
		if err != nil || strings.Count(string(told), "\n") != n || !strings.Contains(string(told), "unsteady: race x0 TestA\n") {
			t.Errorf("%d unsteady: %q (%v)", n, told, err)
		}
	}
}

// TestLooksInTheEnd: nobody is run again before all have run, and each failed test of a program alone.
func TestLooksInTheEnd(t *testing.T) {
	two := "--- FAIL: TestB (0s)\n--- FAIL: TestA (0s)\n"
	s := play(t, map[string][]string{"race x": {two}, "net x": {broken}}, options{}, "race x", "net x", "race y")
	s.wantCalls(t, "race x", "net x", "race y", "race x TestA", "race x TestA", "race x TestB", "race x TestB", "net x TestA", "net x TestA")
	s.want(t, true, "1 passed, 2 failed")
}

// TestWithoutAName: a program that fails without naming a test runs again as a whole.
func TestWithoutAName(t *testing.T) {
	s := play(t, map[string][]string{"race x": {"found unexpected goroutines\n", "", "again\n"}}, options{}, "race x")
	s.wantCalls(t, "race x", "race x", "race x")
	s.want(t, false, "found unexpected goroutines", "FAIL again: race x")
}

// TestCut: of a program that was ended, the tests that had not ended run, too, and what fails then is red.
func TestCut(t *testing.T) {
	const cut = "--- PASS: TestOk (0.00s)\n--- FAIL: TestA (1s)\npanic: test timed out after 8m0s\nrunning tests:\n\tTestB (7m0s)\n\ngoroutine 1"
	for skip, want := range map[string]string{"": "^TestOk$|^TestA$", "^TestParser": "^TestOk$|^TestA$|^TestParser"} {
		r := result{program: program{run: run{name: "race", skip: skip}, pkg: pkg{folder: "x"}}, output: cut}
		var got []string
		for _, l := range looksAt(r) {
			got = append(got, fmt.Sprintf("%s, without %s, %d", l.test, l.run.skip, l.times))
		}
		if want := []string{"TestA, without " + skip + ", 2", "TestB, without " + skip + ", 2", ", without " + want + ", 1"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, late := range []string{"", "--- FAIL: TestC (0.00s)\nFAIL\n"} {
		s := play(t, map[string][]string{"race x": {cut, late}}, options{}, "race x")
		s.wantCalls(t, "race x", "race x TestA", "race x TestA", "race x TestB", "race x TestB", "race x")
		s.want(t, late == "", "once more, alone: race x what it had not come to")
	}
}

// TestManyFailures: what is broken everywhere is not looked at again.
func TestManyFailures(t *testing.T) {
	var many strings.Builder
	for i := range mostLooks + 1 {
		fmt.Fprintf(&many, "--- FAIL: Test%d (0s)\n", i)
	}
	s := play(t, map[string][]string{"race x": {many.String()}}, options{}, "race x")
	s.wantCalls(t, "race x")
	s.want(t, false, "13 tests failed: too many for a second look")
}

// TestDataRace: what the race detector has seen is not looked at again.
func TestDataRace(t *testing.T) {
	s := play(t, map[string][]string{"race x": {"WARNING: DATA RACE\n" + broken}}, options{}, "race x")
	s.wantCalls(t, "race x")
	s.want(t, false, "race x: a data race is one")
}

// TestShown: what passed is not shown beside what failed, and what took long is named.
func TestShown(t *testing.T) {
	s := play(t, map[string][]string{"race x": {"=== RUN   TestOk\n--- PASS: TestOk (0.00s)\n=== RUN   TestLong\n--- PASS: TestLong (120.01s)\n=== RUN   TestA\n" + broken}}, options{}, "race x")
	s.want(t, true, "slow: race x TestLong took 120.01 s")
	if strings.Contains(s.out.String(), "TestOk") || strings.Contains(s.out.String(), "=== RUN") {
		t.Errorf("shown:\n%s", &s.out)
	}
}

// TestRounds: with rounds every failure counts and nothing is excused.
func TestRounds(t *testing.T) {
	s := play(t, map[string][]string{"race x": {"", broken}}, options{rounds: 3}, "race x")
	s.wantCalls(t, "race x", "race x", "race x")
	s.want(t, false, "round 2 of 3: 0 s, 1 programs failed", "2 passed, 1 failed")
}

// TestFailedTests: the names in what a program prints, by failure, panic and timeout.
func TestFailedTests(t *testing.T) {
	for output, want := range map[string]string{
		broken:                                 "TestA",
		"--- FAIL: FuzzX/seed#1 (0s)\n":        "FuzzX",
		"panic: boom\n":                        "",
		"    --- FAIL: TestInner (0s)\n":       "",
		"--- FAIL: TestA\n--- FAIL: TestA (0)": "TestA",
		"panic: test timed out after 8m0s\nrunning tests:\n\tTestB (7m0s)\n\tTestC/sub (1s)\n\ngoroutine 1": "TestB TestC",
	} {
		if got := strings.Join(failedTests(output), " "); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

// TestArguments: what a test program is told about its backend, its tests and its rounds.
func TestArguments(t *testing.T) {
	var got string
	g := &gateRun{options: options{count: 5, shuffle: true}, exec: func(dir string, env []string, bin string, args ...string) result {
		got = fmt.Sprint(dir, " ", env, " ", bin, " ", args)
		return result{}
	}}
	p := program{run: run{poller: "select", skip: "^TestParser", args: []string{"-seeds", "7"}}, pkg: pkg{dir: "/d"}, bin: "/b"}
	for test, want := range map[string]string{
		"":      "/d [EDDY_POLLER=select PWD=/d] /b [-test.v -test.paniconexit0 -test.timeout=1h40m0s -test.skip=^TestParser -test.shuffle=on -test.count=5 -seeds 7]",
		"TestA": "/d [EDDY_POLLER=select PWD=/d] /b [-test.v -test.paniconexit0 -test.timeout=1h40m0s -test.skip=^TestParser -test.run=^TestA$ -seeds 7]",
	} {
		if g.try(p, test); got != want {
			t.Errorf("%q: %s\nwant %s", test, got, want)
		}
	}
	p.run.modules = []string{"m"} // whose command is another one
	if g.try(p, ""); !strings.HasPrefix(got, "/d [EDDY_POLLER=select PWD=/d EDDY_E2E_COMMAND=] /b ") {
		t.Error(got)
	}
}

// TestExecute: a program's output and end are those of its process.
func TestExecute(t *testing.T) {
	if r := execute(t.TempDir(), os.Environ(), "sh", "-c", "echo out; echo err >&2"); r.failed || r.output != "out\nerr\n" {
		t.Errorf("%+v", r)
	}
	if r := execute(t.TempDir(), os.Environ(), "sh", "-c", "exit 3"); !r.failed || !strings.Contains(r.output, "exit status 3") {
		t.Errorf("%+v", r)
	}
	if r := execute(t.TempDir(), os.Environ(), "no-such-program"); !r.failed || r.output == "" {
		t.Errorf("%+v", r)
	}
}

// TestRunsWhileBuilt: programs run as soon as they are built, half as many at once as later, and the longest of those that are built comes first. When the build
// fails, nothing passes, and no other program begins.
func TestRunsWhileBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		running, most := 0, map[bool]int{} // by whether all are built
		built := false
		g := &gateRun{options: options{rounds: 1, beside: 4}, out: io.Discard, exec: func(_ string, _ []string, bin string, _ ...string) result {
			mu.Lock()
			order = append(order, bin)
			running++
			most[built] = max(most[built], running)
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			running--
			return result{}
		}}
		of := func(name string) program {
			run, folder, _ := strings.Cut(name, " ")
			return program{run: run1(run), pkg: pkg{folder: folder}, bin: name}
		}
		ok, err := g.built(nil, func(ready func(...program)) error {
			ready(of("once a"), of("once b"), of("once c"), of("pages desk/e2e"))
			time.Sleep(30 * time.Second) // two run
			ready(of("race x"), of("race y"), of("race desk/hub"))
			time.Sleep(10 * time.Minute)
			ready(of("race m"), of("race n"), of("race o"), of("race p"), of("race q"))
			mu.Lock()
			defer mu.Unlock()
			built = true
			return nil
		})
		for pair := range slices.Chunk(order[:6], 2) {
			slices.Sort(pair) // they begin at the same time
		}
		if want := "once a, pages desk/e2e, once b, race desk/hub, once c, race x"; !ok || err != nil || strings.Join(order[:6], ", ") != want {
			t.Errorf("%v, %v: ran %q, want %s first", ok, err, order, want)
		}
		if len(order) != 12 || most[false] != 2 || most[true] != 4 {
			t.Errorf("%d ran, %v at once", len(order), most)
		}
		broken := errors.New("does not compile")
		ok, err = g.built(nil, func(ready func(...program)) error {
			ready(of("once a"), of("once b"), of("once c"))
			time.Sleep(time.Second)
			return broken
		})
		if ok || err != broken || len(order) != 14 {
			t.Errorf("%v, %v, and %d programs ran, not the two that had begun", ok, err, len(order)-12)
		}
	})
}
