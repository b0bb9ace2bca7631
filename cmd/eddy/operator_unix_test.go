//go:build unix

package main

import (
	"io"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// fill connects to an echo server until it has turned three clients away, and returns how many it serves.
func fill(t *testing.T, addr string, most int) (served int) {
	t.Helper()
	for refused := 0; refused < 3; {
		c := cmdtest.Connect(t, addr)
		io.WriteString(c, "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err == nil && string(got) == "hello" {
			if served++; served > most {
				t.Fatalf("%d connections are served: nothing is full", served)
			}
		} else {
			refused++
		}
	}
	return served
}

// watchFull looks at the operator's page as often as a descriptor that is lost each time would show.
func watchFull(t *testing.T, p *cmdtest.Process) {
	t.Helper()
	base := p.Operator()
	for range 40 {
		for _, path := range []string{"/", "/healthz", "/stats.json", "/metrics"} {
			if status, _ := cmdtest.Get(t, base+path); status != 200 {
				t.Fatalf("%s: %d", path, status)
			}
		}
		c := cmdtest.Connect(t, p.Addr)
		if b, _ := io.ReadAll(io.LimitReader(c, 1)); len(b) == 1 && b[0] != 'b' { // busy
			t.Fatalf("the server is not full any more: %q", b)
		}
		c.Close()
	}
}

// TestOperatorAtTheLimit: the operator's page answers when the server has used up the descriptors of the process.
func TestOperatorAtTheLimit(t *testing.T) {
	t.Parallel()
	cmd := cmdtest.Program("serve", "echo", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Args = append([]string{"sh", "-c", `ulimit -n 96; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	p := cmdtest.StartProcess(t, cmd)
	if served := fill(t, p.Addr, 96); served < 40 {
		t.Errorf("%d connections are served of 96 descriptors", served)
	}
	watchFull(t, p)
}

// TestOperatorBesideSelect: the operator's page answers when the server's own poller takes no further descriptor.
func TestOperatorBesideSelect(t *testing.T) {
	const limit = 1024
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil || have.Cur < 2*limit {
		t.Skipf("needs %d descriptors", 2*limit)
	}
	for name, set := range map[string]func(args []string) ([]string, string){
		"flag":        func(args []string) ([]string, string) { return append(args, "--poller", "select"), "" },
		"environment": func(args []string) ([]string, string) { return args, "EDDY_POLLER=select" },
	} {
		t.Run(name, func(t *testing.T) {
			args, env := set([]string{"serve", "echo", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0"})
			cmd := cmdtest.Program(args...)
			cmd.Env = append(cmd.Env, env)
			p := cmdtest.StartProcess(t, cmd)
			if served := fill(t, p.Addr, limit); served < limit-100 {
				t.Errorf("%d connections are served", served)
			}
			watchFull(t, p)
		})
	}
}
