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
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds how long a server may take to say where it listens. stopTimeout bounds how long it may take to
// leave.
const (
	startTimeout = 10 * time.Second
	stopTimeout  = 3 * time.Second
)

// binaries are the servers under test, built once per run into a temporary directory.
type binaries struct {
	dir string
}

// sources are the commands that build the servers, by the name of their binary.
var sources = map[string][]string{
	"c":           {"gcc", "-O2", "-o", "", filepath.Join("baseline", "epoll_echo.c")},
	"net":         {"go", "build", "-o", "", "./baseline/netecho"},
	"eddy":        {"go", "build", "-o", "", "./server/eddyecho"},
	"lanes":       {"go", "build", "-o", "", "./server/lanes"},
	"writers":     {"go", "build", "-o", "", "./server/writers"},
	"nethttp":     {"go", "build", "-o", "", "./baseline/nethttp"},
	"eddyhttp":    {"go", "build", "-o", "", "./server/eddyhttp"},
	"fasthttp":    {"go", "build", "-o", "", "./peer/fasthttp"},
	"netpoll":     {"go", "build", "-o", "", "./peer/netpollecho"},
	"gnet":        {"go", "build", "-o", "", "./peer/gnetecho"},
	"nbio":        {"go", "build", "-o", "", "./peer/nbioecho"},
	"nginx":       {"go", "build", "-o", "", "./peer/nginx"},
	"c-tuned":     {"gcc", "-O3", "-o", "", filepath.Join("baseline", "epoll_tuned.c")},
	"eddyws":      {"go", "build", "-o", "", "./server/eddyws"},
	"gwsws":       {"go", "build", "-o", "", "./peer/gwsws"},
	"gorillaws":   {"go", "build", "-o", "", "./peer/gorillaws"},
	"coderws":     {"go", "build", "-o", "", "./peer/coderws"},
	"eddyrpc":     {"go", "build", "-o", "", "./server/eddyrpc"},
	"grpcrpc":     {"go", "build", "-o", "", "./peer/grpcrpc"},
	"floods":      {"go", "build", "-o", "", "./server/floods"},
	"uwebsockets": {"sh", filepath.Join("peer", "uwebsockets", "build.sh"), ""},
	"flow":        {"go", "build", "-o", "", "./server/flow"},
	"netrpc":      {"go", "build", "-o", "", "./baseline/netrpc"},
}

// build compiles the servers that the contenders need and dir does not hold yet.
func (b *binaries) build(ctx context.Context, contenders []contender) error {
	for _, c := range contenders {
		path := b.path(c)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		progress("building %s", path)
		step := slices.Clone(sources[c.binary])
		step[slices.Index(step, "")] = path
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		if c.checkout != "" {
			cmd.Dir = filepath.Join(c.checkout, "bench")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
	}
	return nil
}

func (b *binaries) path(c contender) string {
	if c.checkout != "" {
		return filepath.Join(b.dir, c.binary+"-before")
	}
	return filepath.Join(b.dir, c.binary)
}

// contender is one row of a comparison: a server binary with its arguments and the processors it may use.
type contender struct {
	Name     string
	binary   string
	checkout string // of the repository that it is built from; empty = this one
	args     []string
	procs    int      // GOMAXPROCS; the C loop ignores it
	under    []string // program that runs the server, with its arguments; nil = none
	tls      bool
	cpus     []int
}

// server is a running contender.
type server struct {
	contender
	cmd     *exec.Cmd
	stdin   io.WriteCloser // its end makes the server leave, so that a killed driver leaves nothing behind
	lines   chan string
	addr    string
	pid     int     // of the process that serves
	mallocs float64 // objects that the server has allocated, as it says when it leaves; 0 if it says nothing
}

// start runs the contender on its processors and waits until it listens.
func start(b *binaries, c contender) (*server, error) {
	line := slices.Concat(c.under, []string{b.path(c)}, c.args)
	cmd := exec.Command(line[0], line[1:]...)
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
	s := &server{contender: c, cmd: cmd, stdin: stdin, lines: make(chan string, 16), pid: cmd.Process.Pid}
	go s.listen(stdout)
	if s.addr, err = s.address(); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return s, nil
}

// listen passes on the lines that the server prints, until it leaves.
func (s *server) listen(stdout io.Reader) {
	defer close(s.lines)
	for in := bufio.NewScanner(stdout); in.Scan(); {
		s.lines <- in.Text()
	}
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

// address waits for the line "listening ADDR", and takes note of a line "process PID" before it. A library may print something before it.
func (s *server) address() (string, error) {
	timeout := time.After(startTimeout)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return "", errors.New("left before it listened")
			}
			if addr, ok := strings.CutPrefix(line, "listening "); ok {
				return addr, nil
			}
			if pid, ok := strings.CutPrefix(line, "process "); ok {
				if n, err := strconv.Atoi(pid); err == nil {
					s.pid = n
				}
			}
		case <-timeout:
			return "", fmt.Errorf("no address within %v", startTimeout)
		}
	}
}

// stop ends the server's input, reads its last lines, and kills the server when it does not leave by itself.
func (s *server) stop() error {
	s.stdin.Close()
	done := make(chan error, 1)
	go func() {
		for line := range s.lines {
			if n, ok := strings.CutPrefix(line, "mallocs "); ok {
				s.mallocs, _ = strconv.ParseFloat(n, 64)
			}
		}
		done <- s.cmd.Wait()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTimeout):
		s.cmd.Process.Kill()
		<-done
		return errors.New(s.Name + ": did not stop by itself")
	}
}

// settle makes the server collect its garbage and give free memory back.
func (s *server) settle() error {
	_, err := s.ask("settle", "settled")
	return err
}

// goroutines asks the server how many goroutines it has.
func (s *server) goroutines() (float64, error) {
	n, err := s.ask("goroutines", "goroutines ")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(n, 64)
}

// ask sends a word to the server and returns the rest of the line that begins with answer.
func (s *server) ask(word, answer string) (string, error) {
	if _, err := io.WriteString(s.stdin, word+"\n"); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	timeout := time.After(startTimeout)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return "", fmt.Errorf("%s: left when it was told to %s", s.Name, word)
			}
			if rest, ok := strings.CutPrefix(line, answer); ok {
				return rest, nil
			}
		case <-timeout:
			return "", fmt.Errorf("%s: no answer to %s within %v", s.Name, word, startTimeout)
		}
	}
}

// cpuTime reads the processor time the server has used, user and system, all threads, in nanosecond resolution.
func (s *server) cpuTime() (time.Duration, error) {
	const processClock = 2 // CPUCLOCK_SCHED of another process: clock id ^pid<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^s.pid<<3|processClock), &ts); err != nil {
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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
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

// wakeups counts how often the server's threads went to sleep and came back, by their voluntary context switches.
func (s *server) wakeups() (int64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.pid))
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
