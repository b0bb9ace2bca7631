package desk

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestDeskFirstRun starts the desk with nothing: it makes its data directory, prints both addresses that work, and an account that works. The
// second start finds everything and prints no password.
func TestDeskFirstRun(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "new", "desk-data")
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	account := p.WaitOutput(p.Out, cmdtest.AccountPattern)
	for _, path := range []string{"/chat/demo", "/console"} {
		if !strings.Contains(p.Out.String(), "http://"+p.Addr+path+"\n") {
			t.Errorf("%s is not in %q", path, p.Out)
		}
		if status, body := cmdtest.Get(t, "http://"+p.Addr+path); status != http.StatusOK || !strings.Contains(body, "<html") {
			t.Errorf("%s: status %d, %.80q", path, status, body)
		}
	}
	greet(t, p.Addr, account[1], account[2])
	p.Stop()
	if !strings.Contains(p.Errs.String(), "all connections drained, database closed\n") {
		t.Errorf("no drain report in %q", p.Errs)
	}

	again := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	again.WaitOutput(again.Out, regexp.MustCompile(`/console\n`))
	greet(t, again.Addr, account[1], account[2])
	again.Stop()
	if strings.Contains(again.Out.String(), "password") || strings.Contains(again.Out.String(), account[2]) {
		t.Errorf("the second start speaks of the password: %q", again.Out)
	}
}

// greet lets a customer ask for a person, an agent log in, take the chat and answer.
func greet(t *testing.T, addr, login, password string) {
	t.Helper()
	ctx := testkit.Context(t)
	web := desktest.NewWeb(func() string { return "http://" + addr })
	defer web.CloseIdle()
	customer, agent := web.Customer("demo"), web.Agent(login, password)
	defer customer.Close()
	defer agent.Close()
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Take(ctx, conv); err != nil {
		t.Fatal(err)
	}
	agent.Send(conv, "hello from "+login)
	if _, err := customer.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == "hello from "+login }); err != nil {
		t.Fatal(err)
	}
}

// TestDeskBadInput runs the desk where it cannot run. What it was given is afterwards as it was.
func TestDeskBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	corrupt := filepath.Join(dir, "corrupt")
	garbage := []byte(strings.Repeat("this is no database ", 1000))
	for path, content := range map[string][]byte{file: []byte("precious"), filepath.Join(corrupt, "desk.db"): garbage} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used, _ := cmdtest.MadeDesk(t)
	running := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", used)
	fresh := filepath.Join(dir, "fresh")
	for _, c := range []struct{ name, addr, data, thing, remedy string }{
		{"data directory is a file", "127.0.0.1:0", file, file, "choose another"},
		{"data directory below a file", "127.0.0.1:0", filepath.Join(file, "sub"), file, "choose another"},
		{"unwritable", "127.0.0.1:0", "/proc/desk-data", "/proc/desk-data", "choose another"},
		{"corrupt database", "127.0.0.1:0", corrupt, filepath.Join(corrupt, "desk.db"), "backup"},
		{"data directory in use", "127.0.0.1:0", used, used, "choose another"},
		{"empty", "127.0.0.1:0", "", "--data", "name a directory"},
		{"busy port", cmdtest.BusyAddr(t), fresh, "is in use", "--addr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmdtest.ExpectFailure(t, []string{"desk", "--addr", c.addr, "--data", c.data}, c.thing, c.remedy)
		})
	}
	cmdtest.ExpectFailure(t, []string{"desk", "--addr", "127.0.0.1:0", "--data", fresh, "--routing", "magic"}, "--routing", "least_busy")
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a start that failed for its port left a data directory behind (%v)", err)
	}
	if text, err := os.ReadFile(filepath.Join(corrupt, "desk.db")); err != nil || string(text) != string(garbage) {
		t.Errorf("the corrupt database was changed (%v)", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file in the place of the data directory was changed (%v)", err)
	}
	running.Stop()
}

// TestDeskShutdownTellsItsClients stops the desk while a customer is connected: the client is told when to come back.
func TestDeskShutdownTellsItsClients(t *testing.T) {
	t.Parallel()
	data, _ := cmdtest.MadeDesk(t)
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	ctx := testkit.Context(t)
	web := desktest.NewWeb(func() string { return "http://" + p.Addr })
	defer web.CloseIdle()
	customer := web.Customer("demo")
	defer customer.Close()
	if err := customer.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	if _, err := customer.Other(ctx, func(f desktest.Frame) bool { return f.T == "bye" }); err != nil {
		t.Errorf("no bye: %v", err)
	}
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
}

// TestOpening: each step has its line, and those of one that takes long; nothing when there is nothing to do.
func TestOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		tt := &cli.Terminal{Err: &b}
		steps := opening{t: tt}
		time.Sleep(time.Hour)
		steps.end()
		steps.checking()
		time.Sleep(3 * time.Second)
		steps.migrating(1, 2)
		time.Sleep(time.Second)
		steps.migrating(2, 3)
		time.Sleep(3 * time.Second)
		steps.end()
		time.Sleep(time.Hour)
		if got, want := b.String(), "eddy: checking the database, which was not closed in order or has been changed since\neddy: checking the database: 2s\n"+
			"eddy: bringing the database from version 1 to 2\neddy: bringing the database from version 2 to 3\neddy: version 3: 2s\n"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// TestDumperOfDesk: the dumper of the flags is the desk's.
func TestDumperOfDesk(t *testing.T) {
	f := deskFlags{Flags: serving.Flags{Dumper: &executor.Dumper{Dir: "here"}}}
	if d := f.options().Dumper; d == nil || d.Dir != "here" || d.Disabled {
		t.Errorf("desk's dumper is %+v", d)
	}
}

// TestDeskPublicURL: the flag is an origin, with or without a slash at its end, and of https where browsers come over that.
func TestDeskPublicURL(t *testing.T) {
	if f := (deskFlags{public: "https://desk.example/"}); f.options().PublicURL != "https://desk.example" {
		t.Errorf("--public-url is %q", f.options().PublicURL)
	}
	cmdtest.ExpectFailure(t, []string{"desk", "--public-url", "http://desk.example", "--https", "--data", t.TempDir()}, `"http://desk.example"`, "write https://")
}

// TestDeskSiteVisitors: the flag is a rate, ten seconds' worth may come at once, and 0 is no limit.
func TestDeskSiteVisitors(t *testing.T) {
	for n, want := range map[int]hub.Rate{0: {Burst: -1}, 1: {PerSecond: 1, Burst: 10}, defaultSiteVisitors: {PerSecond: 50, Burst: 500}} {
		if f := (deskFlags{siteVisitors: n}); f.options().NewVisitors != want {
			t.Errorf("--site-visitors %d is %+v, want %+v", n, f.options().NewVisitors, want)
		}
	}
}

// TestDeskPush: agents are called unless the flag says no.
func TestDeskPush(t *testing.T) {
	for given, want := range map[string]bool{"": false, "--push=false": true, "--push": false} {
		var f deskFlags
		cmd := &cobra.Command{}
		f.registerPush(cmd)
		if err := cmd.ParseFlags(strings.Fields(given)); err != nil || f.options().NoPush != want {
			t.Errorf("%q: %v, NoPush is %v", given, err, f.options().NoPush)
		}
	}
}
