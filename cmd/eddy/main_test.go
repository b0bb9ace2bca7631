package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

// builtCommand names an eddy command in the environment that is built already, for several test binaries that share one. Without
// it the test binary behaves as the command where asProgram is set: either way the tests run the real thing as a process of its own.
const (
	builtCommand = "EDDY_E2E_COMMAND"
	asProgram    = "EDDY_TEST_AS_PROGRAM"
)

// programPath is the eddy command that the tests run.
var programPath = cmp.Or(os.Getenv(builtCommand), os.Args[0])

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

// program prepares one run of the command line.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(programPath, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "HOME="+os.Getenv(testHome), "USERPROFILE="+os.Getenv(testHome),
		"TMPDIR="+os.Getenv(testHome), "TMP="+os.Getenv(testHome), "GORACE=atexit_sleep_ms=0") // a race still ends the program with an exit code of its own
	return cmd
}

// runToEnd runs a command line that ends by itself.
func runToEnd(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runWithin(t, testkit.Patience, args...)
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
	out   *testkit.Output
	errs  *testkit.Output
	ended chan struct{}
}

var addressPattern = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+:\d+)`)

// startServer starts a server command and waits until it has printed its address.
func startServer(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcess(t, program(args...))
}

func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := startCommand(t, cmd)
	p.addr = p.waitOutput(p.out, addressPattern)[1]
	return p
}

// startCommand starts a command that runs until the test ends at the latest.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: new(testkit.Output), errs: new(testkit.Output), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s: stdout %q, stderr %q", p.cmd, p.out, p.errs)
		}
	})
	return p
}

// waitOutput waits until the process has printed something that matches and returns the match.
func (p *process) waitOutput(o *testkit.Output, pattern *regexp.Regexp) (m []string) {
	p.t.Helper()
	testkit.Eventually(p.t, fmt.Sprintf("output that matches %v", pattern), func() bool {
		ended := p.hasEnded() // all that it will print is there then
		if m = pattern.FindStringSubmatch(o.String()); m == nil && ended {
			p.t.Fatalf("ended (%v) without printing %v", p.cmd.ProcessState, pattern)
		}
		return m != nil
	})
	return m
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
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
	testkit.Receive(p.t, "the end of "+p.cmd.String(), p.ended)
	return p.cmd.ProcessState.ExitCode()
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
	c.SetDeadline(time.Now().Add(testkit.Patience))
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

// get fetches a page without keeping the connection.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
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
