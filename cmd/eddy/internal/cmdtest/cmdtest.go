// Package cmdtest runs the eddy command as a process of its own in the tests of the commands.
package cmdtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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

// builtCommand names an eddy command in the environment that is built already, for several test binaries that share one.
// Without it the test binary behaves as the command where AsProgram is set: either way the tests run the real thing.
const builtCommand = "EDDY_E2E_COMMAND"

// AsProgram is the variable in the environment that makes a test binary behave as the command.
const AsProgram = "EDDY_TEST_AS_PROGRAM"

// Path is the eddy command that the tests run.
func Path() string { return cmp.Or(os.Getenv(builtCommand), os.Args[0]) }

// Main runs the tests of a package, or eddy where the process is to be the command. Call it from TestMain.
func Main(m goleak.TestingM, eddy func()) {
	if os.Getenv(AsProgram) != "" {
		eddy()
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

// Program prepares one run of the command line. The check of a password takes the least memory that it may, unless the line says otherwise.
func Program(args ...string) *exec.Cmd {
	cmd := exec.Command(Path(), args...)
	cmd.Env = append(os.Environ(), AsProgram+"=1", "HOME="+os.Getenv(testHome), "USERPROFILE="+os.Getenv(testHome),
		"TMPDIR="+os.Getenv(testHome), "TMP="+os.Getenv(testHome), "EDDY_DESK_PASSWORD_MEMORY=7MiB", "GORACE=atexit_sleep_ms=0") // a race still ends the program with an exit code of its own
	return cmd
}

// Run runs a command line that ends by itself.
func Run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return RunWithin(t, testkit.Patience, args...)
}

// RunWithin is Run with a limit of its own.
func RunWithin(t *testing.T, patience time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := Program(args...)
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

// ExpectFailure runs one bad command line: nothing on stdout, one line on stderr that names the thing and the remedy.
func ExpectFailure(t *testing.T, args []string, thing, remedy string) {
	t.Helper()
	stdout, stderr, code := Run(t, args...)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if stdout != "" {
		t.Errorf("stdout %q, want nothing", stdout)
	}
	if !regexp.MustCompile(`^eddy: [^\n]+\n$`).MatchString(stderr) {
		t.Errorf("stderr %q is not one line of eddy", stderr)
	}
	if !strings.Contains(stderr, thing) || !strings.Contains(stderr, remedy) {
		t.Errorf("stderr %q does not name %q and %q", stderr, thing, remedy)
	}
}

// Process is a running command.
type Process struct {
	Cmd   *exec.Cmd
	Addr  string // of a server
	Out   *testkit.Output
	Errs  *testkit.Output
	Ended chan struct{}

	t *testing.T
}

var addressPattern = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+:\d+)`)

// StartServer starts a server command and waits until it has printed its address.
func StartServer(t *testing.T, args ...string) *Process {
	t.Helper()
	return StartProcess(t, Program(args...))
}

// StartProcess is StartServer with a command that is prepared.
func StartProcess(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := StartCommand(t, cmd)
	p.Addr = p.WaitOutput(p.Out, addressPattern)[1]
	return p
}

// StartCommand starts a command that runs until the test ends at the latest.
func StartCommand(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: cmd, Out: new(testkit.Output), Errs: new(testkit.Output), Ended: make(chan struct{})}
	p.Cmd.Stdout, p.Cmd.Stderr = p.Out, p.Errs
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.Cmd.Wait(); close(p.Ended) }()
	t.Cleanup(func() {
		p.Cmd.Process.Kill()
		<-p.Ended
		if t.Failed() {
			t.Logf("%s: stdout %q, stderr %q", p.Cmd, p.Out, p.Errs)
		}
	})
	return p
}

// WaitOutput waits until the process has printed something that matches and returns the match.
func (p *Process) WaitOutput(o *testkit.Output, pattern *regexp.Regexp) (m []string) {
	p.t.Helper()
	testkit.Eventually(p.t, fmt.Sprintf("output that matches %v", pattern), func() bool {
		ended := p.hasEnded() // all that it will print is there then
		if m = pattern.FindStringSubmatch(o.String()); m == nil && ended {
			p.t.Fatalf("ended (%v) without printing %v", p.Cmd.ProcessState, pattern)
		}
		return m != nil
	})
	return m
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Wait returns the exit code of a process that was told to end.
func (p *Process) Wait() int {
	p.t.Helper()
	testkit.Receive(p.t, "the end of "+p.Cmd.String(), p.Ended)
	return p.Cmd.ProcessState.ExitCode()
}

// Stop ends the process in order and expects exit code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		p.t.Errorf("exit code %d after SIGTERM; stderr %q", code, p.Errs)
	}
}

// Operator returns where the operator's page of a server with --admin is.
func (p *Process) Operator() string {
	p.t.Helper()
	return p.WaitOutput(p.Out, regexp.MustCompile(`operator +(http://\S+)/`))[1]
}

// Fingerprint returns the fingerprint of the certificate of a server that speaks TLS.
func (p *Process) Fingerprint() string {
	p.t.Helper()
	return p.WaitOutput(p.Errs, regexp.MustCompile(`SHA-256 ([0-9a-f]{64})\n`))[1]
}
