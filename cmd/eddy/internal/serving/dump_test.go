package serving

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/executor"
)

// dumpsOf parses a command line and returns the dumper that it makes.
func dumpsOf(t *testing.T, args ...string) *executor.Dumper {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{Use: "test"}
	f.registerDump(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.Dumper
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
}
