package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds how long a server may take to say where it listens, stopTimeout how long it may take to leave.
const (
	startTimeout = 10 * time.Second
	stopTimeout  = 3 * time.Second
)

// binaries are the servers under test, built once per run into a temporary directory.
type binaries struct {
	dir string
}

// build compiles the C loop and the Go servers into dir.
func build(ctx context.Context, dir string) (*binaries, error) {
	b := &binaries{dir: dir}
	steps := [][]string{
		{"gcc", "-O2", "-o", b.path("c"), filepath.Join("baseline", "epoll_echo.c")},
		{"go", "build", "-o", b.path("net"), "./baseline/netecho"},
		{"go", "build", "-o", b.path("eddy"), "./server/eddyecho"},
	}
	for _, step := range steps {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
	}
	return b, nil
}

func (b *binaries) path(name string) string { return filepath.Join(b.dir, name) }

// A contender is one row of a comparison: a server binary with its arguments and the processors it may use.
type contender struct {
	Name   string
	binary string
	args   []string
	procs  int // GOMAXPROCS; the C loop ignores it
	cpus   []int
}

// A server is a running contender.
type server struct {
	contender
	cmd   *exec.Cmd
	stdin io.Closer // its end tells the server to leave, so a killed driver leaves nothing behind
	addr  string
}

// start runs the contender on its processors and waits until it listens.
func start(b *binaries, c contender) (*server, error) {
	cmd := exec.Command(b.path(c.binary), c.args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(c.procs))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(cmd, c.cpus); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	s := &server{contender: c, cmd: cmd, stdin: stdin}
	if s.addr, err = readAddress(stdout); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return s, nil
}

// startOn starts cmd from a thread that is bound to cpus; the child inherits the affinity. No cpus means no binding.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := bind(cpus); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &before)
	return cmd.Start()
}

// bind restricts the calling thread to cpus.
func bind(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bind to processors %v: %w", cpus, err)
	}
	return nil
}

// readAddress waits for the line "listening ADDR".
func readAddress(stdout io.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		addr, ok := strings.CutPrefix(strings.TrimSpace(a.line), "listening ")
		if !ok {
			return "", fmt.Errorf("said %q instead of its address (%v)", a.line, a.err)
		}
		return addr, nil
	case <-time.After(startTimeout):
		return "", fmt.Errorf("no address within %v", startTimeout)
	}
}

// stop ends the server's input and kills it when it does not leave by itself.
func (s *server) stop() error {
	s.stdin.Close()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTimeout):
		s.cmd.Process.Kill()
		<-done
		return errors.New(s.Name + ": did not stop by itself")
	}
}

// cpuTime reads the processor time the server has used, user and system, all threads, in nanosecond resolution.
func (s *server) cpuTime() (time.Duration, error) {
	const processClock = 2 // CPUCLOCK_SCHED of another process: clock id ^pid<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^s.cmd.Process.Pid<<3|processClock), &ts); err != nil {
		return 0, fmt.Errorf("%s: processor clock: %w", s.Name, err)
	}
	return time.Duration(ts.Nano()), nil
}

// memory reads the resident size of the server and its peak, in bytes.
func (s *server) memory() (now, peak int64, err error) {
	if now, err = s.status("VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = s.status("VmHWM:")
	return now << 10, peak << 10, err
}

// status reads one number of /proc/PID/status.
func (s *server) status(field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s in its status", s.Name, field)
}

// wakeups counts how often the server's threads went to sleep and came back: its voluntary context switches.
func (s *server) wakeups() (int64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
				if err != nil {
					return 0, err
				}
				total += n
			}
		}
	}
	return total, nil
}
