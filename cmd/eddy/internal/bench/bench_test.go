package bench

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
)

// runBench measures for longer and longer until there is an answer: a busy machine may answer nothing in a short time.
func runBench(t *testing.T, d time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	for ; ; d *= 4 {
		stdout, stderr, code = cmdtest.Run(t, append(args, "--duration", d.String())...)
		if d > 30*time.Second || !strings.Contains(stderr, "no answer from") || !strings.Contains(stderr, " within ") {
			return stdout, stderr, code
		}
	}
}

// TestBench measures each example server with the load generator and finds its figures in text and JSON.
func TestBench(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"echo", "line", "frame", "http", "ws"} {
		p := cmdtest.StartServer(t, "serve", protocol, "--addr", "127.0.0.1:0")
		args := []string{"bench", protocol, "--addr", p.Addr, "--conns", "8", "--inflight", "4", "--warmup", "0s"}
		stdout, stderr, code := runBench(t, 300*time.Millisecond, args...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", protocol, code, stderr)
		}
		for _, want := range []string{"requests/s", "p50", "p99", "p99.9", "max", "errors      0"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q in %q", protocol, want, stdout)
			}
		}
		stdout, _, code = runBench(t, 300*time.Millisecond, append(args, "--json")...)
		var r measured.Run
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%s: %v, exit code %d, stdout %q", protocol, err, code, stdout)
		}
		if r.Protocol != protocol || r.Requests == 0 || r.Errors != 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P999 || r.Latency.P999 < r.Latency.P50 {
			t.Errorf("%s: implausible figures %+v", protocol, r)
		}
		p.Stop()
	}
}

// TestBenchProgress shows the progress line of a run that takes longer than two seconds, and that Ctrl+C ends it with a result.
func TestBenchProgress(t *testing.T) {
	t.Parallel()
	server := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0")
	b := cmdtest.StartCommand(t, cmdtest.Program("bench", "echo", "--addr", server.Addr, "--conns", "2", "--duration", "1h", "--warmup", "0s"))
	b.WaitOutput(b.Errs, regexp.MustCompile(`(?m)^eddy: \d+ of 3600 s: \d+ requests/s, p99 .* 0 errors$`))
	b.Signal(syscall.SIGINT)
	if code := b.Wait(); code != 0 || !strings.Contains(b.Out.String(), "errors      0") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, b.Out, b.Errs)
	}
	server.Stop()
}

// TestBenchRPC: both forms of the load against the demo server.
func TestBenchRPC(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0")
	for _, args := range [][]string{{"--inflight", "4"}, {"--rate", "500"}} {
		stdout, stderr, code := runBench(t, 400*time.Millisecond, append([]string{"bench", "rpc", "--addr", p.Addr, "--conns", "2", "--warmup", "0s", "--json"}, args...)...)
		var r measured.Run
		if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || r.Requests == 0 || r.Errors != 0 || r.Protocol != "rpc" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if _, stderr, code := runBench(t, 200*time.Millisecond, "bench", "rpc", "--addr", p.Addr, "--conns", "1", "--warmup", "0s", "--service", "/demo.None:"); code != 1 || !strings.Contains(stderr, "status 2") {
		t.Errorf("a service that is not there: exit code %d, %q", code, stderr)
	}
	p.Stop()
}
