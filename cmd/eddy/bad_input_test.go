package main

import (
	"net"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// freeAddr returns an address nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestBadInput runs each bad command line: nothing on stdout, one line on stderr that names the thing and the remedy, exit code 1.
func TestBadInput(t *testing.T) {
	busy, free := cmdtest.BusyAddr(t), freeAddr(t) // the listener of busy accepts and never answers
	for _, c := range []struct{ line, thing, remedy string }{
		{"desc", `unknown command "desc"`, "did you mean desk?"},
		{"frobnicate", `unknown command "frobnicate"`, "eddy --help"},
		{"help nope", `unknown command "nope"`, "eddy --help"},
		{"serve", `"eddy serve" needs one of`, "echo, line, lanes, frame, rpc, http and ws"},
		{"serve ecko", `unknown command "ecko"`, "did you mean echo?"},
		{"serve echo now", `unexpected argument "now"`, "eddy serve echo --help"},
		{"serve echo --adr x", "unknown flag --adr", "did you mean --addr?"},
		{"serve echo -z", "unknown flag -z", "eddy serve echo --help"},
		{"serve echo --addr", "--addr needs a value", "host:port"},
		{"serve echo --addr 7000", `--addr "7000"`, "127.0.0.1:7000"},
		{"serve echo --addr 127.0.0.1:70000", `--addr "127.0.0.1:70000"`, "0 to 65535"},
		{"serve echo --addr " + busy, busy + " is in use", "--addr"},
		{"serve line --addr " + busy, busy + " is in use", "--addr"},
		{"serve ws --addr " + busy, busy + " is in use", "--addr"},
		{"serve echo --addr 192.0.2.1:7000", "192.0.2.1:7000 is not an address of this machine", "--addr"},
		{"serve echo --loops many", `--loops "many"`, "0 = one per processor"},
		{"serve echo --loops -1", "--loops -1", "0 for one per processor"},
		{"serve echo --max-conns -1", "--max-conns -1", "0 for no limit"},
		{"serve echo --idle-timeout -1s", "--idle-timeout -1s", "0 for no limit"},
		{"serve echo --memory-budget lots", `--memory-budget "lots"`, "auto = a quarter"},
		{"serve echo --memory-budget 0", `--memory-budget "0"`, "off = no limit"},
		{"serve echo --poller iocp", `--poller "iocp"`, "net"},
		{"serve echo --tls-cert x", "--tls-cert x is useless without its key", "--tls-key FILE"},
		{"serve line --tls-key x", "--tls-key x is useless without its certificate", "--tls-cert FILE"},
		{"serve ws --tls-self-signed --tls-cert x --tls-key y", "--tls-self-signed makes its own", "leave out"},
		{"serve http --tls-cert /no/such.pem --tls-key /no/such.key", "cannot read /no/such.pem", "PEM"},
		{"serve lanes --tls-cert go.mod --tls-key go.mod", "cannot read go.mod", "--tls-cert"},
		{"serve echo --tls-cert main_test.go --tls-key main_test.go", "main_test.go and main_test.go are no pair", "PEM"},
		{"serve ws --dump maybe", `--dump "maybe" is not a valid on|off`, "off: do not"},
		{"desk --dump maybe", `--dump "maybe" is not a valid on|off`, "off: do not"},
		{"serve line --max-line 0", "--max-line 0", "use 1 to"},
		{"serve http --workers 0", "--workers 0", "use 1 to"},
		{"serve http --queue 0", "--queue 0", "use 1 to"},
		{"serve http --max-body -1", "--max-body -1", "use 1 to"},
		{"serve http --max-header 0", "--max-header 0", "use 1 to"},
		{"serve http --max-fields 0", "--max-fields 0", "use 1 to"},
		{"serve http --max-requests -1", "--max-requests -1", "use 0 to"},
		{"serve http --header-timeout 0", "--header-timeout 0s", "10s"},
		{"serve http --body-timeout soon", `--body-timeout "soon"`, "10s"},
		{"serve http --idle-timeout -1s", "--idle-timeout -1s", "10s"},
		{"serve http --write-timeout 0", "--write-timeout 0s", "10s"},
		{"serve http --handler-timeout -1s", "--handler-timeout -1s", "0 for no limit"},
		{"serve frame --ordering any", `--ordering "any"`, "completion, ordered, serial or no-pipelining"},
		{"serve frame --loops 0", "--loops 0", "use 1 to"},
		{"serve frame --workers 0", "--workers 0", "use 1 to"},
		{"serve frame --queue -1", "--queue -1", "use 1 to"},
		{"serve frame --in-flight 0", "--in-flight 0", "use 1 to"},
		{"serve frame --max-payload 0", "--max-payload 0", "use 1 to"},
		{"serve frame --max-per-ip -1", "--max-per-ip -1", "use 0 for no limit"},
		{"serve http --max-per-ip -1", "--max-per-ip -1", "use 0 for no limit"},
		{"serve frame --high-watermark 1000", "--high-watermark 1000", "use 262145 to"},
		{"serve frame --max-outbound 1000", "--max-outbound 1000", "use 1048576 to"},
		{"serve frame --read-timeout 0", "--read-timeout 0s", "10s"},
		{"serve frame --idle-timeout 0", "--idle-timeout 0s", "10s"},
		{"serve frame --write-timeout 0", "--write-timeout 0s", "10s"},
		{"serve frame --request-timeout -1s", "--request-timeout -1s", "10s"},
		{"serve frame --backpressure-timeout -1s", "--backpressure-timeout -1s", "10s"},
		{"serve frame --stats -1s", "--stats -1s", "10s"},
		{"serve frame --addr " + busy, busy + " is in use", "--addr"},
		{"bench frame --addr " + free, "no server listens on " + free, "eddy serve frame --addr " + free},
		{"serve ws --max-message 0", "--max-message 0", "use 1 to"},
		{"serve ws --max-frame -1", "--max-frame -1", "use 0 to"},
		{"serve ws --close-timeout -1s", "--close-timeout -1s", "5s"},
		{"serve ws --compress-takeover", "--compress-takeover", "add it"},
		{"bench", `"eddy bench" needs one of`, "echo, line, frame, rpc, http, ws, churn, slow-reader, slowloris, desk and compare"},
		{"bench frame --rate -1", "--rate -1", "use 1 to"},
		{"bench echo --inflight 0", "--inflight 0", "use 1 to"},
		{"bench echo --runs 0", "--runs 0", "use 1 to"},
		{"bench echo --warmup -1s", "--warmup -1s", "use 0s to"},
		{"bench http --size -1", "--size -1", "use 0 to"},
		{"bench http --path here", `--path "here"`, "begins with /"},
		{"bench churn --protocol smtp", `unknown protocol "smtp"`, "use echo"},
		{"bench slowloris --protocol echo", `"echo" knows no unfinished request`, "use http"},
		{"bench slowloris --every 0s", "--every 0s", "at most 1h"},
		{"bench slow-reader --attackers 0", "--attackers 0", "use 1 to"},
		{"bench compare one.json", "1 files", "name two"},
		{"bench compare none.json none.json", "none.json", "--json >none.json"},
		{"bench churn --addr " + free, "no server listens on " + free, "eddy serve echo --addr " + free},
		{"bench echo --conns 0", "--conns 0", "use 1 to"},
		{"bench echo --size 2000000", "--size 2000000", "use 1 to"},
		{"bench echo --duration soon", `--duration "soon"`, "10s"},
		{"bench echo --duration -1s", "--duration -1s", "10s"},
		{"bench echo --addr " + free, "no server listens on " + free, "eddy serve echo --addr " + free},
		{"bench ws --addr " + free + " --json", "no server listens on " + free, "eddy serve ws --addr " + free},
		{"bench echo --conns 1 --duration 50ms --warmup 0s --addr " + busy, "no answer from " + busy, "eddy serve echo"},
	} {
		t.Run(c.line, func(t *testing.T) {
			cmdtest.ExpectFailure(t, strings.Fields(c.line), c.thing, c.remedy)
		})
	}
}

// TestBadPollerInEnvironment shows that the environment is held to the same rule as the flag.
func TestBadPollerInEnvironment(t *testing.T) {
	t.Setenv("EDDY_POLLER", "iocp")
	cmdtest.ExpectFailure(t, []string{"serve", "echo", "--addr", "127.0.0.1:0"}, `EDDY_POLLER "iocp"`, "poll")
}

func TestHelpAndVersion(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "Available Commands"},
		{"--help", "Available Commands"},
		{"help serve", "Available Commands"},
		{"serve line --help", "--max-line"},
		{"version", "eddy "},
	} {
		stdout, stderr, code := cmdtest.Run(t, strings.Fields(c.line)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, c.want) {
			t.Errorf("eddy %s: exit code %d, stderr %q, stdout %q; want %q", c.line, code, stderr, stdout, c.want)
		}
	}
}
