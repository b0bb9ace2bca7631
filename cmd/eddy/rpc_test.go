package main

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
)

// call runs "eddy call" against a server.
func (p *process) call(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	return callAt(p.t, p.addr, args...)
}

// callAt is a call that only a hang ends early.
func callAt(t *testing.T, addr string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runToEnd(t, append([]string{"call", addr, "--timeout", "2m"}, args...)...)
}

// TestServeRPC: what a person sees of each service, and the exit code of each way to fail.
func TestServeRPC(t *testing.T) {
	t.Parallel()
	p := startServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--loops", "1")
	if out := p.out.String(); !strings.Contains(out, "dispatcher all, isolation shared") {
		t.Errorf("it says %q", out)
	}
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte(`{"name": "file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		out  string // what stdout is, or stderr holds if the code is not 0
	}{
		{[]string{"demo.Greeter", "Hello", `{"name":"you"}`}, 0, "{\"message\":\"Hello, you!\"}\n"},
		{[]string{"/demo.Greeter:", "Hello", "--file", file, "--meta", "a=b", "--meta", "c="}, 0, "{\"message\":\"Hello, file!\"}\n"},
		{[]string{"demo.Echo", "Echo", "--raw", "bytes"}, 0, "bytes"},
		{[]string{"demo.Echo", "Echo", "--raw", "--file", file}, 0, `{"name": "file"}`},
		{[]string{"demo.Echo", "Echo", `[1, 2]`}, 0, "[1,2]\n"},
		{[]string{"demo.Slow", "Sleep", `{"ms":1}`}, 0, "{\"slept_ms\":1}\n"},
		{[]string{"demo.Greeter", "Log", `{"line":"heard"}`, "--oneway"}, 0, ""},
		{[]string{"demo.Nobody", "Hello"}, 3, `NOT_FOUND: no service "/demo.Nobody:"; "eddy call ` + p.addr + ` --list" lists`},
		{[]string{"demo.Greeter", "Bye"}, 3, "NOT_FOUND"},
		{[]string{"demo.Greeter", "Hello", "--version", "2.0"}, 3, `NOT_FOUND: no service "/demo.Greeter:2.0"`},
		{[]string{"demo.Greeter", "Hello", "--group", "g"}, 3, `NOT_FOUND: no service "g/demo.Greeter:"`},
		{[]string{"demo.Greeter", "Hello"}, 4, "BAD_REQUEST: the name is missing"},
		{[]string{"demo.Greeter", "Hello", "5"}, 4, "BAD_REQUEST"},
		{[]string{"demo.Greeter", "Hello", "--raw", "5"}, 4, "BAD_REQUEST"},
		{[]string{"demo.Flaky", "Busy", `{"retry_after_ms":250}`}, 5, "BUSY: as it was asked to be; it was not executed: try again after 250ms"},
		{[]string{"demo.Flaky", "Busy", `{}`}, 5, "it was not executed: try again later"},
		{[]string{"demo.Slow", "Sleep", `{"ms":60000}`, "--timeout", "2s"}, 6, "no response within the timeout; it may have been executed, and --timeout 2s may be too short"},
		{[]string{"demo.Flaky", "Fail", `{"message":"it went wrong"}`}, 7, "APP_ERROR: it went wrong"},
		{[]string{"demo.Flaky", "Panic"}, 8, "INTERNAL: "},
	} {
		stdout, stderr, code := p.call(c.args...)
		if code != c.code || code == 0 && (stdout != c.out || stderr != "") || code != 0 && (stdout != "" || !strings.Contains(stderr, c.out) || strings.Count(stderr, "\n") != 1) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %d and %q", c.args, code, stdout, stderr, c.code, c.out)
		}
	}
	p.waitOutput(p.errs, regexp.MustCompile(`log: "heard"`))
	list, _, code := p.call("--list")
	for _, line := range []string{`eddy\.Health +- +- +Check +json +- +rpc`, `demo\.Greeter +- +- +Log \(one-way\) +json +- +rpc`, `demo\.Echo +- +- +Echo +raw,json,protobuf +- +rpc`} {
		if code != 0 || !regexp.MustCompile(`(?m)^`+line+`$`).MatchString(list) {
			t.Errorf("exit code %d; no line %s in\n%s", code, line, list)
		}
	}
	p.stop()
	if _, stderr, code := p.call("demo.Greeter", "Hello"); code != 2 || !strings.Contains(stderr, "no server listens on "+p.addr+`: start one with "eddy serve rpc --addr `+p.addr+`"`) {
		t.Errorf("after the end: exit code %d, %q", code, stderr)
	}
}

// TestCallNoServer: what listens there and speaks something else, or nothing.
func TestCallNoServer(t *testing.T) {
	t.Parallel()
	if _, stderr, code := runToEnd(t, "call", busyAddr(t), "a", "b", "--timeout", "2s"); code != exitDeadline || !strings.Contains(stderr, "no response within the timeout") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-line", "10")
	if _, stderr, code := p.call("a", "b"); code != exitConnect && code != exitOther {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestServeRPCBusy: a full pool is BUSY, with the advice of the command line; a service with a pool of its own is not concerned.
func TestServeRPCBusy(t *testing.T) {
	t.Parallel()
	p := startServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--isolation", "service", "--threads", "1", "--retry-after", "70ms", "--dump", "off", "--stats", "20ms")
	holds := program("call", p.addr, "demo.Slow", "Sleep", `{"ms":60000}`, "--timeout", "1h")
	if err := holds.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		holds.Process.Kill()
		holds.Wait()
	}()
	p.waitOutput(p.errs, regexp.MustCompile(`/demo\.Slow: 1 calls, 1 in flight`))
	if _, stderr, code := p.call("demo.Slow", "Sleep", `{"ms":1}`); code != 5 || !strings.Contains(stderr, "try again after 70ms") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if stdout, stderr, code := p.call("demo.Greeter", "Hello", `{"name":"you"}`); code != 0 {
		t.Errorf("another service: exit code %d, %q, %q", code, stdout, stderr)
	}
	p.waitOutput(p.errs, regexp.MustCompile(`requests busy 1, refused 0, cancelled \d+, late \d+`))
}

const demoConfig = `application:
  executor-management-mode: isolation
  dump.enable: false
protocols:
  frame: {host: 127.0.0.1, port: -1, dispather: message}
  tri: {host: 127.0.0.1, port: -1}
services:
  - {interface: demo.Greeter, group: g, version: 1.0, protocol: frame, timeout: 70s}
  - {interface: demo.Echo, protocol: tri}
`

// TestServeRPCConfig: ports, keys and timeouts from a file; what is wrong in it is told with its line.
func TestServeRPCConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rpc.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(demoConfig)
	p := startServer(t, "serve", "rpc", "--config", file)
	ports := p.waitOutput(p.out, regexp.MustCompile(`rpc \(frame\) on (\S+), dispatcher message, rpc \(tri\) on (\S+), dispatcher all, isolation service`))
	p.waitOutput(p.errs, regexp.MustCompile(`warning: .*rpc\.yaml:5: protocols\.frame\.dispather: is an old spelling: write dispatcher`))
	list, _, _ := callAt(t, ports[1], "--list")
	if !regexp.MustCompile(`demo\.Greeter +1\.0 +g +Hello +json +1m10s +frame\n`).MatchString(list) || !regexp.MustCompile(`demo\.Echo .* tri\n`).MatchString(list) {
		t.Errorf("the port frame lists\n%s", list)
	}
	for addr, want := range map[string]int{ports[1]: 0, ports[2]: 3} {
		if stdout, stderr, code := callAt(t, addr, "demo.Greeter", "Hello", `{"name":"you"}`, "--group", "g", "--version", "1.0"); code != want {
			t.Errorf("%s: exit code %d, want %d: %q %q", addr, code, want, stdout, stderr)
		}
	}
	p.stop()

	for _, c := range []struct{ text, want string }{
		{strings.Replace(demoConfig, "-1", "-2", 1), `rpc.yaml:5: protocols.frame.port: "-2" is out of range: -1 to 65535`},
		{strings.Replace(demoConfig, "demo.Echo", "demo.Nope", 1), "service /demo.Nope:: there is no such demo: use the interfaces demo.Greeter, demo.Slow, demo.Flaky and demo.Echo"},
		{"client: {addresses: 'a:1'}", "it has no protocols, the ports to serve on"},
	} {
		write(strings.ReplaceAll(c.text, "dispather", "dispatcher"))
		if stdout, stderr, code := runToEnd(t, "serve", "rpc", "--config", file); code != 1 || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
		}
	}
}

// TestServeRPCTLS: the flags of TLS are those of the other servers.
func TestServeRPCTLS(t *testing.T) {
	p := startServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--tls-self-signed")
	fingerprint := p.waitOutput(p.errs, regexp.MustCompile(`SHA-256 (\S+)`))[1]
	c, err := tls.Dial("tcp", p.addr, pinned(fingerprint))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(frameOf(1, fPing, "secret")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 22)
	for n := 0; n < len(got); {
		m, err := c.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(got[16:]) != "secret" {
		t.Errorf("%q", got)
	}
	c.Close()
	p.stop()
}

// TestBenchRPC: both forms of the load against the demo server.
func TestBenchRPC(t *testing.T) {
	t.Parallel()
	p := startServer(t, "serve", "rpc", "--addr", "127.0.0.1:0")
	for _, args := range [][]string{{"--inflight", "4"}, {"--rate", "500"}} {
		stdout, stderr, code := runBench(t, 400*time.Millisecond, append([]string{"bench", "rpc", "--addr", p.addr, "--conns", "2", "--warmup", "0s", "--json"}, args...)...)
		var r measured.Run
		if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || r.Requests == 0 || r.Errors != 0 || r.Protocol != "rpc" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if _, stderr, code := runBench(t, 200*time.Millisecond, "bench", "rpc", "--addr", p.addr, "--conns", "1", "--warmup", "0s", "--service", "/demo.None:"); code != 1 || !strings.Contains(stderr, "status 2") {
		t.Errorf("a service that is not there: exit code %d, %q", code, stderr)
	}
	p.stop()
}
