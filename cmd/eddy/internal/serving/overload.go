package serving

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/operator"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/overload"
)

// overloadFlags are the flags of the overload manager, of commands that register them.
type overloadFlags struct {
	on            bool
	memory        memoryBudget
	lag, queueAge time.Duration
	changed       func(name string) bool
}

// RegisterOverload adds --overload and its limits.
func (f *Flags) RegisterOverload(cmd *cobra.Command) {
	o, n := &f.overload, cmd.Flags()
	o.changed = n.Changed
	n.BoolVar(&o.on, "overload", false, "watch memory, descriptors, processors, loops and queues, and give up what matters least when they run short (docs/overload.md); includes --adaptive")
	n.Var(&o.memory, "overload-memory", "with --overload: what the program may use, such as 512MiB; auto = the least of GOMEMLIMIT, the control groups' limits and the machine's memory, off = not watched")
	n.DurationVar(&o.lag, "overload-lag", 500*time.Millisecond, "with --overload: time until a loop comes to its next task; 0 = not watched")
	n.DurationVar(&o.queueAge, "overload-queue-age", time.Second, "with --overload: time for which work has waited for a pool; 0 = not watched")
}

func (o *overloadFlags) check() error {
	for _, name := range []string{"overload-memory", "overload-lag", "overload-queue-age"} {
		if !o.on && o.changed != nil && o.changed(name) {
			return fmt.Errorf("--%s needs --overload", name)
		}
	}
	for name, d := range map[string]time.Duration{"overload-lag": o.lag, "overload-queue-age": o.queueAge} {
		if d < 0 || d > 0 && d < time.Millisecond {
			return fmt.Errorf("--%s %v is out of range: use a duration from 1ms on, such as 500ms, or 0 for not watched", name, d)
		}
	}
	return nil
}

// Adaptive reports whether pools find their limits by themselves. An overload is of no use to pools that cannot refuse by class.
func (f *Flags) Adaptive(flag bool) bool { return flag || f.overload.on }

// OverloadOptions returns the options of the overload manager, nil without --overload.
func (f *Flags) OverloadOptions() *overload.Options {
	o := &f.overload
	if !o.on {
		return nil
	}
	off := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1
		}
		return d
	}
	return &overload.Options{Memory: int(o.memory), Lag: off(o.lag), QueueAge: off(o.queueAge)}
}

// Protect starts the overload manager of a server, which ends with it. Without --overload it does nothing.
func (f *Flags) Protect(op *operator.Operator, name string, srv *eddy.Server, pools ...*executor.Pool) (end func(), err error) {
	o := f.OverloadOptions()
	if o == nil {
		return func() {}, nil
	}
	o.Servers, o.Pools = []*eddy.Server{srv}, pools
	m, err := overload.New(*o)
	if err != nil {
		return nil, err
	}
	if err := op.Overload(name, m); err != nil {
		m.Close()
		return nil, err
	}
	return m.Close, nil
}
