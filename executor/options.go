package executor

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

const (
	// DefaultQueue is the number of waiting runners of a fixed or eager pool whose Options.Queue is 0.
	DefaultQueue = 1024

	// DefaultKeepAlive is how long an idle worker stays when Options.KeepAlive is 0.
	DefaultKeepAlive = 60 * time.Second
)

// Options configure a pool. The zero value is usable.
type Options struct {
	// Name appears in errors and logs. "" means "pool".
	Name string

	// Workers is the largest number of runners that run at once. 0 means the default of the pool's kind. A fixed pool
	// has GOMAXPROCS, right for work that computes. Work that waits for a database or another server needs as many
	// workers as should wait at the same time.
	Workers int

	// Core is how many workers stay however long they are idle.
	Core int

	// Queue is the largest number of runners that wait for a worker. 0 means the default of the pool's kind, HandOff
	// that none waits.
	Queue int

	// Parked bounds the runners that have left their place, see Place. At this number no further Placed is taken or
	// begun, and Submit answers ErrRejected. Those that run then may still park, so that Workers more are possible. One
	// owner may have a third of what is free, which is a quarter of Parked for an owner alone. 0 means DefaultParked,
	// NoParking that runners keep their places. With CPUs each parked runner keeps its thread.
	Parked int

	// Policy says what happens to a runner when there is no room for it. The zero value
	// refuses it.
	Policy Policy

	// Adaptive makes the pool find its limit by itself; Workers is the upper bound then. nil = the limits stay as they are set.
	Adaptive *Adaptive

	// KeepAlive is how long a worker stays idle before it ends; it ends after twice that time at the latest. 0 means
	// DefaultKeepAlive.
	KeepAlive time.Duration

	// CPUs gives each worker an operating-system thread of its own that runs on one of these processors only, in turn.
	// Use it for work that computes, on processors that are kept free for it. Empty leaves the workers to the Go
	// scheduler. Not every system supports it.
	CPUs []int

	// OnExhausted is called when the pool had no room for a submission, at most once in ReportInterval. It runs on a
	// goroutine of the pool that Shutdown waits for, and may block. The pool logs the event too. nil means no call.
	OnExhausted func(Exhaustion)

	// Dumper writes the stacks of all goroutines when the pool is exhausted. Pools of a process should share one,
	// because it limits how often that happens. nil writes none.
	Dumper *Dumper

	// Logger gets the warnings of exhaustion, and panics if OnPanic is nil. nil is
	// slog.Default().
	Logger *slog.Logger

	// Around, if set, is called on the worker for every task, item of a strand and task of a key. Around calls run, once
	// and on the same goroutine. Use it to restore what tracing needs, to take the time, or to label the goroutine for
	// profiles with pprof.Do. ctx is the context given to SubmitContext, or the one that the task carries (see
	// Contexter), else an empty one. run passes its context on to functions that take one. nil runs tasks as they are.
	Around func(ctx context.Context, run func(ctx context.Context))

	// OnPanic gets the value of a recovered panic and its stack, on the worker. nil logs both to Logger as an error.
	OnPanic func(v any, stack []byte)
}

// complete checks the options and fills in the defaults. kind holds the numbers that depend on the pool's kind.
func (o *Options) complete(kind Options) error {
	if field, v, ok := checkLimits(o.Workers, o.Queue); !ok {
		return fmt.Errorf("executor: Options.%s is %d, outside its range", field, v)
	}
	if o.Workers == 0 {
		o.Workers = kind.Workers
	}
	o.Queue = orDefault(o.Queue, kind.Queue)
	if o.Parked < NoParking || o.Parked > math.MaxInt32 {
		return fmt.Errorf("executor: Options.Parked is %d, outside its range", o.Parked)
	}
	o.Parked = orDefault(o.Parked, DefaultParked)
	switch {
	case o.Core < 0 || o.Core > o.Workers:
		return fmt.Errorf("executor: Options.Core is %d, with %d Workers", o.Core, o.Workers)
	case o.KeepAlive < 0:
		return fmt.Errorf("executor: Options.KeepAlive is %v, below 0", o.KeepAlive)
	}
	if err := o.Policy.check(); err != nil {
		return err
	}
	if err := tryCPUs(o.CPUs); err != nil {
		return fmt.Errorf("executor: Options.CPUs: %w", err)
	}
	if o.Name == "" {
		o.Name = "pool"
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.OnPanic == nil {
		o.OnPanic = logPanic(o.Logger, o.Name)
	}
	return nil
}

func logPanic(l *slog.Logger, name string) func(any, []byte) {
	return func(v any, stack []byte) {
		orDefaultLogger(l).Error("executor: panic in a task", "pool", name, "panic", v, "stack", string(stack))
	}
}
