package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asProgram makes the test binary behave as the eddy command, so that the tests run the real thing as a process of its own.
const asProgram = "EDDY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	home, err := os.MkdirTemp("", "eddy-home-") // where the programs write when nobody names a directory
	if err != nil {
		panic(err)
	}
	os.Setenv(testHome, home)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

const testHome = "EDDY_TEST_HOME"

// tool returns the path of a program that has one of these names; the test is skipped without it, or fails if EDDY_REQUIRE
// names what it is.
func tool(t *testing.T, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), what) {
		t.Fatalf("%s is required by EDDY_REQUIRE and missing", what)
	}
	t.Skipf("%s is not installed", what)
	return ""
}

// patience is the deadline of everything a test waits for, whole runs of a command and conversations included.
const patience = 4 * time.Minute

// program prepares one run of the command line.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "HOME="+os.Getenv(testHome), "USERPROFILE="+os.Getenv(testHome), "GORACE=atexit_sleep_ms=0") // a race still ends the program with an exit code of its own
	return cmd
}

// runToEnd runs a command line that ends by itself.
func runToEnd(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runWithin(t, patience, args...)
}

func runWithin(t *testing.T, patience time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := program(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if _, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("eddy %s: %v: did not end within %v; stdout %q, stderr %q", strings.Join(args, " "), cmd.ProcessState, patience, out.String(), errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A process is a running server command.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	addr  string
	out   *output
	errs  *output
	ended chan struct{}
}

// output collects what a process prints; any goroutine may look at it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func newOutput() *output { return &output{grew: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grew <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var addressPattern = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+:\d+)`)

// startServer starts a server command and waits until it has printed its address.
func startServer(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcess(t, program(args...))
}

func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: newOutput(), errs: newOutput(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() { p.cmd.Process.Kill(); <-p.ended })
	p.addr = p.waitOutput(p.out, addressPattern)[1]
	return p
}

// waitOutput waits until the process has printed something that matches and returns the match.
func (p *process) waitOutput(o *output, pattern *regexp.Regexp) []string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		if m := pattern.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		select {
		case <-o.grew:
		case <-p.ended:
			if m := pattern.FindStringSubmatch(o.String()); m != nil {
				return m
			}
			p.t.Fatalf("ended (%v) without printing %v; stdout %q, stderr %q", p.cmd.ProcessState, pattern, p.out, p.errs)
		case <-deadline:
			p.t.Fatalf("no %v within %v; stdout %q, stderr %q", pattern, patience, p.out, p.errs)
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code of a process that was told to end.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("still running after %v; stdout %q, stderr %q", patience, p.out, p.errs)
		return -1
	}
}

// stop ends the process in order and expects exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.t.Errorf("exit code %d after SIGTERM; stderr %q", code, p.errs)
	}
}

// connect opens a TCP connection with the test's deadline on it.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// talk sends text on a fresh connection and returns everything the server answers until it closes.
func talk(t *testing.T, addr, text string) string {
	t.Helper()
	c := connect(t, addr)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", answer, err)
	}
	return string(answer)
}

// readLine reads one line without its ending.
func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

// testContext ends with the test, or when its patience does.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// get fetches a page without keeping the connection.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
