package serve

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// callAt is a call that only a hang ends early.
func callAt(t *testing.T, addr string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return cmdtest.Run(t, append([]string{"call", addr, "--timeout", "2m"}, args...)...)
}

// TestServeRPC: what a person sees of each service, and the exit code of each way to fail.
func TestServeRPC(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--loops", "1")
	if out := p.Out.String(); !strings.Contains(out, "dispatcher all, isolation shared") {
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
		{[]string{"demo.Nobody", "Hello"}, 3, `NOT_FOUND: no service "/demo.Nobody:"; "eddy call ` + p.Addr + ` --list" lists`},
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
		stdout, stderr, code := callAt(t, p.Addr, c.args...)
		if code != c.code || code == 0 && (stdout != c.out || stderr != "") || code != 0 && (stdout != "" || !strings.Contains(stderr, c.out) || strings.Count(stderr, "\n") != 1) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %d and %q", c.args, code, stdout, stderr, c.code, c.out)
		}
	}
	p.WaitOutput(p.Errs, regexp.MustCompile(`log: "heard"`))
	list, _, code := callAt(t, p.Addr, "--list")
	for _, line := range []string{`eddy\.Health +- +- +Check +json +- +rpc`, `demo\.Greeter +- +- +Log \(one-way\) +json +- +rpc`, `demo\.Echo +- +- +Echo +raw,json,protobuf +- +rpc`} {
		if code != 0 || !regexp.MustCompile(`(?m)^`+line+`$`).MatchString(list) {
			t.Errorf("exit code %d; no line %s in\n%s", code, line, list)
		}
	}
	p.Stop()
	if _, stderr, code := callAt(t, p.Addr, "demo.Greeter", "Hello"); code != 2 || !strings.Contains(stderr, "no server listens on "+p.Addr+`: start one with "eddy serve rpc --addr `+p.Addr+`"`) {
		t.Errorf("after the end: exit code %d, %q", code, stderr)
	}
}

// TestServeRPCBusy: a full pool is BUSY, with the advice of the command line; a service with a pool of its own is not concerned.
func TestServeRPCBusy(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--isolation", "service", "--threads", "1", "--retry-after", "70ms", "--dump", "off", "--stats", "20ms")
	holds := cmdtest.Program("call", p.Addr, "demo.Slow", "Sleep", `{"ms":60000}`, "--timeout", "1h")
	if err := holds.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		holds.Process.Kill()
		holds.Wait()
	}()
	p.WaitOutput(p.Errs, regexp.MustCompile(`/demo\.Slow: 1 calls, 1 in flight`))
	if _, stderr, code := callAt(t, p.Addr, "demo.Slow", "Sleep", `{"ms":1}`); code != 5 || !strings.Contains(stderr, "try again after 70ms") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if stdout, stderr, code := callAt(t, p.Addr, "demo.Greeter", "Hello", `{"name":"you"}`); code != 0 {
		t.Errorf("another service: exit code %d, %q, %q", code, stdout, stderr)
	}
	p.WaitOutput(p.Errs, regexp.MustCompile(`requests busy 1, refused 0, cancelled \d+, late \d+`))
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
	p := cmdtest.StartServer(t, "serve", "rpc", "--config", file)
	ports := p.WaitOutput(p.Out, regexp.MustCompile(`rpc \(frame\) on (\S+), dispatcher message, rpc \(tri\) on (\S+), dispatcher all, isolation service`))
	p.WaitOutput(p.Errs, regexp.MustCompile(`warning: .*rpc\.yaml:5: protocols\.frame\.dispather: is an old spelling: write dispatcher`))
	list, _, _ := callAt(t, ports[1], "--list")
	if !regexp.MustCompile(`demo\.Greeter +1\.0 +g +Hello +json +1m10s +frame\n`).MatchString(list) || !regexp.MustCompile(`demo\.Echo .* tri\n`).MatchString(list) {
		t.Errorf("the port frame lists\n%s", list)
	}
	for addr, want := range map[string]int{ports[1]: 0, ports[2]: 3} {
		if stdout, stderr, code := callAt(t, addr, "demo.Greeter", "Hello", `{"name":"you"}`, "--group", "g", "--version", "1.0"); code != want {
			t.Errorf("%s: exit code %d, want %d: %q %q", addr, code, want, stdout, stderr)
		}
	}
	p.Stop()

	for _, c := range []struct{ text, want string }{
		{strings.Replace(demoConfig, "-1", "-2", 1), `rpc.yaml:5: protocols.frame.port: "-2" is out of range: -1 to 65535`},
		{strings.Replace(demoConfig, "demo.Echo", "demo.Nope", 1), "service /demo.Nope:: there is no such demo: use the interfaces demo.Greeter, demo.Slow, demo.Flaky, demo.Echo, org.apache.dubbo.config.spring.api.DemoService and"},
		{"client: {addresses: 'a:1'}", "it has no protocols, the ports to serve on"},
	} {
		write(strings.ReplaceAll(c.text, "dispather", "dispatcher"))
		if stdout, stderr, code := cmdtest.Run(t, "serve", "rpc", "--config", file); code != 1 || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
		}
	}
}

// TestServeRPCTLS: the flags of TLS are those of the other servers.
func TestServeRPCTLS(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--tls-self-signed")
	fingerprint := p.Fingerprint()
	c, err := tls.Dial("tcp", p.Addr, cmdtest.Pinned(fingerprint))
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
	p.Stop()
}
