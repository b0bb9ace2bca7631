package executor

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

const (
	// DefaultQueue is the number of waiting runners of a pool whose Options.Queue is 0.
	DefaultQueue = 1024

	// DefaultKeepAlive is how long an idle worker stays when Options.KeepAlive is 0.
	DefaultKeepAlive = 60 * time.Second
)

// Options configure a pool. The zero value is usable.
type Options struct {
	// Name appears in errors and logs. "" means "pool".
	Name string

	// Workers is the largest number of runners that run at once. 0 means GOMAXPROCS,
	// right for work that computes; work that waits for a database or another server
	// needs as many as shall wait at the same time.
	Workers int

	// Queue is the largest number of runners that wait for a worker. 0 means DefaultQueue.
	Queue int

	// KeepAlive is how long a worker stays idle before it ends; it ends at the latest
	// after twice that time. 0 means DefaultKeepAlive.
	KeepAlive time.Duration

	// CPUs gives each worker an operating-system thread of its own that runs on one of these processors only,
	// in turn: for work that computes, on processors that are kept free for it. Empty leaves the workers to
	// the Go scheduler. Not every system has it.
	CPUs []int

	// OnPanic is told the value of a recovered panic and its stack, on the worker. nil
	// logs both to slog.Default() as an error.
	OnPanic func(v any, stack []byte)
}

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Workers < 0:
		return fmt.Errorf("executor: Options.Workers is %d, below 0", o.Workers)
	case o.Queue < 0:
		return fmt.Errorf("executor: Options.Queue is %d, below 0", o.Queue)
	case o.KeepAlive < 0:
		return fmt.Errorf("executor: Options.KeepAlive is %v, below 0", o.KeepAlive)
	}
	if err := tryCPUs(o.CPUs); err != nil {
		return fmt.Errorf("executor: Options.CPUs: %w", err)
	}
	if o.Name == "" {
		o.Name = "pool"
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Queue == 0 {
		o.Queue = DefaultQueue
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.OnPanic == nil {
		o.OnPanic = logPanic(o.Name)
	}
	return nil
}

func logPanic(name string) func(any, []byte) {
	return func(v any, stack []byte) {
		slog.Default().Error("executor: panic in a task", "pool", name, "panic", v, "stack", string(stack))
	}
}
