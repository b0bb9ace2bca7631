package serving

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/executor"
)

// registerDump adds the flags about what happens when a pool of the program is exhausted.
func (f *Flags) registerDump(cmd *cobra.Command) {
	f.Dumper = new(executor.Dumper)
	cmd.Flags().Var((*onOff)(&f.Dumper.Disabled), "dump", "on: write the stacks of all goroutines to a file when a pool is exhausted, at most once in 10 minutes; off: do not")
	cmd.Flags().StringVar(&f.Dumper.Dir, "dump-dir", os.TempDir(), fmt.Sprintf("directory of these files, created if missing, which keeps %d of them; empty = home", executor.DumpFiles))
}

// onOff is the value of a flag whose opposite is stored: on is false.
type onOff bool

func (v *onOff) String() string {
	if *v {
		return "off"
	}
	return "on"
}

func (v *onOff) Set(s string) error {
	switch s {
	case "on", "true":
		*v = false
	case "off", "false":
		*v = true
	default:
		return fmt.Errorf("%q is neither on nor off", s)
	}
	return nil
}

// Type returns the name of the type in the help.
func (v *onOff) Type() string { return "on|off" }
