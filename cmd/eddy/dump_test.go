package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// dumpsOf parses a command line and returns the dumper that it makes.
func dumpsOf(t *testing.T, args ...string) *executor.Dumper {
	t.Helper()
	var f dumpFlags
	cmd := &cobra.Command{Use: "test"}
	f.register(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.dumper()
}

// TestDumpFlags: dumps are on and go to the temporary directory unless the command line says otherwise.
func TestDumpFlags(t *testing.T) {
	for _, c := range []struct {
		args     []string
		dir      string
		disabled bool
	}{
		{nil, os.TempDir(), false},
		{[]string{"--dump-dir="}, "", false}, // home
		{[]string{"--dump-dir", "/var/dumps"}, "/var/dumps", false},
		{[]string{"--dump=off"}, os.TempDir(), true},
		{[]string{"--dump", "off", "--dump", "on", "--dump-dir=x"}, "x", false},
		{[]string{"--dump=false"}, os.TempDir(), true},
	} {
		if d := dumpsOf(t, c.args...); d.Dir != c.dir || d.Disabled != c.disabled {
			t.Errorf("%v: directory %q, disabled %v", c.args, d.Dir, d.Disabled)
		}
	}
	for _, args := range [][]string{{"desk"}, {"serve", "ws"}} {
		_, stderr, code := runToEnd(t, append(args, "--dump", "maybe")...)
		if code == 0 || !strings.Contains(stderr, `--dump "maybe" is not a valid on|off`) {
			t.Errorf("%v --dump maybe: exit %d, %q", args, code, stderr)
		}
	}
	f := deskFlags{listenFlags: listenFlags{dump: dumpFlags{&executor.Dumper{Dir: "here"}}}}
	if d := f.options().Dumper; d == nil || d.Dir != "here" || d.Disabled {
		t.Errorf("desk's dumper is %+v", d)
	}
}

// TestHandshakesDump: an exhausted pool of handshakes leaves a dump where the command line says, and none when that is off.
func TestHandshakesDump(t *testing.T) {
	for _, onOff := range []string{"on", "off"} {
		dir := filepath.Join(t.TempDir(), "dumps")
		pool, err := handshakePool(dumpsOf(t, "--dump", onOff, "--dump-dir", dir))
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for n := 0; err == nil; n++ {
			if err = pool.SubmitFunc(func() { <-gate }); n > 10_000 {
				t.Fatal("the pool is never full")
			}
		}
		close(gate)
		if _, err := pool.Shutdown(t.Context()); err != nil { // waits for the report, too
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt"))
		if want := map[string]int{"on": 1, "off": 0}[onOff]; len(files) != want {
			t.Fatalf("--dump %s: files %v", onOff, files)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), `pool "handshakes" is exhausted`) {
				t.Errorf("%v, %.200s", err, text)
			}
		}
	}
}

// TestServersDump: an exhausted pool of a real server leaves a dump, with nothing but the flag for the directory.
func TestServersDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dumps")
	p := startServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--workers", "1", "--queue", "1", "--dump-dir", dir)
	for range 8 {
		c := connect(t, p.addr)
		defer c.Close()
		if _, err := c.Write([]byte("GET /slow?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the dump", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt"))
		return len(files) == 1
	})
}
