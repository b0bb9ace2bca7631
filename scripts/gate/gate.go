package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type options struct {
	beside   int
	rounds   int
	count    int
	shuffle  bool
	burn     int
	dir      string
	unsteady string
}

const (
	// timeout ends a test program that hangs. It is longer than a test waits for anything, and than all pages take on a machine
	// that is half as fast as usual.
	timeout = 20 * time.Minute
	// mostUnsteady is how many tests may fail once without making the gate red.
	mostUnsteady = 3
	// mostLooks bounds the second looks: where more tests fail, something is broken.
	mostLooks = 12
	// slow is how many seconds a test may take without being named: one that took that long has waited in vain for
	// something, and has passed all the same.
	slow = 100
)

// required are the tools without which a test fails instead of being skipped.
const required = "browser,chromium,connectconformance,curl,gcc,node,openssl,postgres,versitygw,wrk,zookeeper"

// gate carries out the runs of that name, all without names, and reports whether the gate is green.
func gate(o options, names []string) (bool, error) {
	runs, err := named(names)
	if err != nil {
		return false, err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "gate-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(o.dir)
	}
	all, err := listAll(runs)
	if err != nil {
		return false, err
	}
	list := programs(o.dir, runs, all)
	command := filepath.Join(o.dir, "eddy")
	g := &gateRun{options: o, out: os.Stdout, exec: execute, env: append(os.Environ(),
		"CI=true", "EDDY_REQUIRE="+required, "EDDY_E2E_COMMAND="+command, "EDDY_DESK_PASSWORD_MEMORY=7MiB", "EDDY_LEAKS=", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")}
	scratch, err := memoryDir() // databases flush each commit to their file, and a disk makes that wait
	if err != nil {
		return false, err
	}
	if scratch != "" {
		defer os.RemoveAll(scratch)
		g.env = append(g.env, "TMPDIR="+scratch)
	}
	return g.built(list, func(ready func(...program)) error {
		begin := time.Now()
		err := compile(o.dir, list, command, ready)
		fmt.Fprintf(g.out, "%d test programs built in %.0f s\n", len(list), time.Since(begin).Seconds())
		return err
	})
}

func named(names []string) ([]run, error) {
	var runs []run
	for _, r := range plan {
		if len(names) == 0 && !r.long {
			runs = append(runs, r)
		}
	}
	for _, n := range names {
		i := slices.IndexFunc(plan, func(r run) bool { return r.name == n })
		if i < 0 {
			return nil, fmt.Errorf("the plan has no run %q; see -plan", n)
		}
		runs = append(runs, plan[i])
	}
	return runs, nil
}

// A gateRun carries out programs.
type gateRun struct {
	options
	env  []string
	out  io.Writer
	exec func(dir string, env []string, bin string, args ...string) result

	mu     sync.Mutex
	passed int
	broken []result // programs that failed
}

// A result is what became of one program.
type result struct {
	program
	output string
	failed bool
	wall   time.Duration
	cpu    time.Duration
}

// built runs the programs that build makes, and reports whether they may pass. Where each runs once, the first run while others are built.
func (g *gateRun) built(list []program, build func(ready func(...program)) error) (bool, error) {
	if g.rounds == 1 && g.burn == 0 {
		var err error
		g.once(func(q *queue) {
			if err = build(q.add); err != nil {
				q.drop()
			}
		})
		return err == nil && g.verdict(), err
	}
	if err := build(func(...program) {}); err != nil {
		return false, err
	}
	defer burn(g.burn)()
	for round := range g.rounds {
		begin := time.Now()
		before := len(g.broken)
		g.once(func(q *queue) { q.add(list...) })
		fmt.Fprintf(g.out, "round %d of %d: %.0f s, %d programs failed\n", round+1, g.rounds, time.Since(begin).Seconds(), len(g.broken)-before)
	}
	return g.verdict(), nil
}

// verdict looks again at what failed, unless there were more rounds, and reports whether the gate is green.
func (g *gateRun) verdict() bool {
	green := len(g.broken) == 0
	if !green && g.rounds == 1 {
		green = g.lookAgain()
	}
	fmt.Fprintf(g.out, "%d passed, %d failed\n", g.passed, len(g.broken))
	return green
}

// once runs each program that fill adds to a queue, some side by side.
func (g *gateRun) once(fill func(*queue)) {
	q := newQueue(g.beside)
	var wg sync.WaitGroup
	for range g.beside {
		wg.Go(func() {
			for p, ok := q.next(); ok; p, ok = q.next() {
				g.note(g.try(p, ""))
				q.ended()
			}
		})
	}
	fill(q)
	q.filled()
	wg.Wait()
}

// try runs a program, or one test of it.
func (g *gateRun) try(p program, test string) result {
	args := []string{"-test.v", "-test.paniconexit0", fmt.Sprintf("-test.timeout=%v", timeout*time.Duration(max(g.count, 1)))}
	if p.run.skip != "" {
		args = append(args, "-test.skip="+p.run.skip)
	}
	switch {
	case test != "":
		args = append(args, "-test.run=^"+test+"$")
	case g.shuffle:
		args = append(args, "-test.shuffle=on", fmt.Sprintf("-test.count=%d", g.count))
	default:
		args = append(args, fmt.Sprintf("-test.count=%d", g.count))
	}
	env := append(slices.Clone(g.env), "EDDY_POLLER="+p.run.poller, "PWD="+p.pkg.dir)
	if p.run.modules != nil {
		env = append(env, "EDDY_E2E_COMMAND=") // theirs is linked with more
	}
	r := g.exec(p.pkg.dir, env, p.bin, append(args, p.run.args...)...)
	r.program = p
	return r
}

// note tells how a program ended; what it printed is shown when it failed.
func (g *gateRun) note(r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	word := "ok  "
	if r.failed {
		g.broken = append(g.broken, r)
		fmt.Fprintln(g.out, strings.TrimRight(wentWell.ReplaceAllString(r.output, ""), "\n"))
		word = "FAIL"
	} else {
		g.passed++
	}
	for _, m := range passedTest.FindAllStringSubmatch(r.output, -1) {
		if seconds, _ := strconv.ParseFloat(m[2], 64); seconds >= slow {
			fmt.Fprintf(g.out, "slow: %s %s took %s s\n", r.name(), m[1], m[2])
		}
	}
	fmt.Fprintf(g.out, "%s %-32s %6.1f s, processor %6.1f s\n", word, r.name(), r.wall.Seconds(), r.cpu.Seconds())
}

// A look is a test of a program that failed, or all of it; once, it is about the tests that the program had not come to.
type look struct {
	program
	test  string
	times int
}

func (l look) what() string {
	if l.times == 1 {
		return l.name() + " what it had not come to"
	}
	return strings.TrimSpace(l.name() + " " + l.test)
}

// looksAt are the looks at a program that failed.
func looksAt(r result) (looks []look) {
	tests := failedTests(r.output)
	for _, test := range tests {
		looks = append(looks, look{r.program, test, 2})
	}
	switch rest := r.program; {
	case wasCut.MatchString(r.output): // tests that had not begun are no tests that passed
		var done []string
		for _, m := range endedTest.FindAllStringSubmatch(r.output, -1) {
			done = append(done, "^"+m[1]+"$")
		}
		if rest.run.skip != "" {
			done = append(done, rest.run.skip)
		}
		rest.run.skip = strings.Join(done, "|")
		looks = append(looks, look{rest, "", 1})
	case len(tests) == 0: // it failed as a whole
		looks = append(looks, look{rest, "", 2})
	}
	return looks
}

// lookAgain runs what failed once more, twice, one at a time, and reports whether it may pass as unsteady.
func (g *gateRun) lookAgain() bool {
	var looks []look
	for _, r := range g.broken {
		if strings.Contains(r.output, "WARNING: DATA RACE") {
			fmt.Fprintf(g.out, "%s: a data race is one, also if it is not seen again\n", r.name())
			return false
		}
		looks = append(looks, looksAt(r)...)
	}
	if len(looks) > mostLooks {
		fmt.Fprintf(g.out, "%d tests failed: too many for a second look\n", len(looks))
		return false
	}
	var unsteady []string
	green := true
	for _, l := range looks {
		name := l.what()
		fmt.Fprintf(g.out, "once more, alone: %s\n", name)
		again := false
		for range l.times {
			if r := g.try(l.program, l.test); r.failed {
				fmt.Fprintf(g.out, "%s\nFAIL again: %s\n", strings.TrimRight(r.output, "\n"), name)
				green, again = false, true
				break
			}
		}
		if !again && l.times > 1 {
			unsteady = append(unsteady, name)
		}
	}
	var names strings.Builder
	for _, name := range unsteady {
		fmt.Fprintf(&names, "unsteady: %s\n", name)
	}
	io.WriteString(g.out, names.String())
	if g.unsteady != "" && names.Len() > 0 {
		if err := os.WriteFile(g.unsteady, []byte(names.String()), 0o644); err != nil {
			fmt.Fprintln(g.out, err)
			return false
		}
	}
	if len(unsteady) > mostUnsteady {
		fmt.Fprintf(g.out, "%d unsteady tests, at most %d may be\n", len(unsteady), mostUnsteady)
		return false
	}
	return green
}

var (
	wentWell   = regexp.MustCompile(`(?m)^(=== \w+ .*| *--- (PASS|SKIP): .*)\n`)
	passedTest = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\S+)s\)$`)
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	endedTest  = regexp.MustCompile(`(?m)^--- \w+: (\w+) \(`)
	wasCut     = regexp.MustCompile(`(?m)^(panic: |fatal error: |signal: )`)
	hungTests  = regexp.MustCompile(`(?m)^running tests:\n((?:\t\w.*\n)+)`)
	hungTest   = regexp.MustCompile(`(?m)^\t(\w+)`)
)

// failedTests are the names of the tests that failed or were running when a program was ended, each once.
func failedTests(output string) []string {
	var names []string
	for _, m := range failedTest.FindAllStringSubmatch(output, -1) {
		names = append(names, m[1])
	}
	if m := hungTests.FindStringSubmatch(output); m != nil {
		for _, t := range hungTest.FindAllStringSubmatch(m[1], -1) {
			names = append(names, t[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// execute runs a program to its end.
func execute(dir string, env []string, bin string, args ...string) result {
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Minute // for what children of it keep open
	begin := time.Now()
	err := cmd.Run()
	r := result{output: out.String(), failed: err != nil, wall: time.Since(begin)}
	if err != nil {
		r.output += fmt.Sprintf("\n%v\n", err)
	}
	if cmd.ProcessState != nil {
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return r
}

// burn starts processes that keep a processor busy each; what it returns ends them.
func burn(n int) (end func()) {
	var all []*exec.Cmd
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			continue
		}
		all = append(all, cmd)
	}
	return func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
}
