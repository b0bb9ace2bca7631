package desk

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/trace"
)

// traceFlags are the flags about traces.
type traceFlags struct {
	sample float64
	trust  bool
}

func (f *traceFlags) register(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&f.sample, "trace-sample", 0, "share of commands and API calls, from 0 to 1, whose stages are recorded: --admin shows the slowest, and webhooks and bots get a traceparent")
	cmd.Flags().BoolVar(&f.trust, "trust-trace", false, "believe the traceparent of handshakes and API calls, which also decides what is recorded; only if no stranger can set it")
}

func (f *traceFlags) check() error {
	if !(f.sample >= 0 && f.sample <= 1) { // also NaN
		return fmt.Errorf("--trace-sample is %v: give a share from 0 to 1, such as 0.01", f.sample)
	}
	return nil
}

// recorder returns what records, nil if nothing is to be recorded.
func (f *traceFlags) recorder() *trace.Recorder {
	if f.sample == 0 && !f.trust {
		return nil
	}
	rec, _ := trace.New(trace.Options{Sample: f.sample}) // checked
	return rec
}
