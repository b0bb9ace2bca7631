//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eddy returns the program, which it builds unless somebody has.
func eddy(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("EDDY_E2E_COMMAND"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "eddy")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/eddy").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestCluster is the walk of docs/desk-cluster.md: a customer and an agent talk through the proxy while a Desk is killed, another one is paused,
// and NATS goes away and comes back.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers, PostgreSQL and NATS")
	}
	if _, err := postgresPrograms(); err != nil {
		testkit.Tool(t, "postgres")
	}
	program := eddy(t)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	commands, say := io.Pipe()
	defer func() { _ = say.Close() }()
	var out testkit.Output
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, options{nodes: 3, addr: addr, eddy: program}, commands, &out) }()
	shows := func(what string) {
		t.Helper()
		testkit.Eventually(t, "to be told: "+what, func() bool {
			select {
			case err := <-ended:
				t.Fatalf("it has ended: %v: %s", err, out.String())
			default:
			}
			return strings.Contains(out.String(), what)
		})
	}
	tell := func(what string) {
		t.Helper()
		if _, err := io.WriteString(say, what+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	shows("The proxy is at")
	password := regexp.MustCompile(`password +(\S+)`).FindStringSubmatch(out.String())
	if password == nil {
		t.Fatalf("no password: %s", out.String())
	}
	web := desktest.NewWeb(func() string { return "http://" + addr })
	defer web.CloseIdle()
	agent, customer := web.Agent("agent", password[1]), web.Customer("demo")
	defer agent.Close()
	defer customer.Close()
	if err := agent.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" }); err != nil {
		t.Fatal(err)
	}
	talk := func(text string) {
		t.Helper()
		for _, c := range [][2]*desktest.Client{{customer, agent}, {agent, customer}} {
			c[0].Send(conv, text)
			if _, err := c[1].Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" && strings.Contains(string(f.D), text) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	talk("all run")
	for _, step := range []struct{ say, shows string }{
		{"kill 1", "Desk 1 does not run"}, {"nats off", "NATS has ended"}, {"kill 2", "Desk 2 does not run"}, {"start 1", ""}, {"nats on", ""},
		{"start 2", ""}, {"pause 3", ""}, {"status", "is paused"}, {"resume 3", ""}, {"fly 3", "say kill, stop"}, {"stop 9", "with 1 to 3"}, {"stop 3", "Desk 3 does not run"},
	} {
		tell(step.say)
		shows(step.shows)
		if step.say != "pause 3" && step.say != "status" { // who is connected to a paused server waits for it
			talk("after " + step.say)
		}
	}
	tell("quit")
	if err := testkit.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(regexp.MustCompile(`/\S*eddy-cluster-\d+`).FindString(out.String())); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}
