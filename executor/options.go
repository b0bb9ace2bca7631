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

	// Workers is the largest number of runners that run at once. 0 means the default of
	// the pool's kind. That of a fixed pool is GOMAXPROCS, right for work that computes;
	// work that waits for a database or another server needs as many as shall wait at the
	// same time.
	Workers int

	// Core is how many workers stay however long they are idle.
	Core int

	// Queue is the largest number of runners that wait for a worker. 0 means the default
	// of the pool's kind, HandOff that none waits.
	Queue int

	// Parked bounds the runners that have left their place, see Place: from so many on no further Placed is taken or
	// begun, and Submit answers ErrRejected. Those that run then may still park, so that Workers more are possible. An
	// owner may have a third of what is free: a quarter of Parked if it is the only one. 0 means DefaultParked,
	// NoParking that runners keep their places. With CPUs each parked runner keeps its thread.
	Parked int

	// Policy says what happens to a runner when there is no room for it. The zero value
	// refuses it.
	Policy Policy

	// KeepAlive is how long a worker stays idle before it ends; it ends at the latest
	// after twice that time. 0 means DefaultKeepAlive.
	KeepAlive time.Duration

	// CPUs gives each worker an operating-system thread of its own that runs on one of these processors only,
	// in turn: for work that computes, on processors that are kept free for it. Empty leaves the workers to
	// the Go scheduler. Not every system has it.
	CPUs []int

	// OnExhausted is told that the pool had no room for what was submitted, at most once in
	// ReportInterval, on a goroutine of the pool that Shutdown waits for. The pool logs it
	// too. It may block. nil tells nobody.
	OnExhausted func(Exhaustion)

	// Dumper writes the stacks of all goroutines when the pool is exhausted. Pools of a
	// process should share one, since it limits how often. nil writes none.
	Dumper *Dumper

	// Logger gets the warnings of exhaustion, and panics if OnPanic is nil. nil is
	// slog.Default().
	Logger *slog.Logger

	// Around, if set, is called on the worker for every task, item of a strand and task of a key, and calls run, once and
	// on the same goroutine: to restore there what tracing needs, to take the time, or to label the goroutine for profiles
	// with pprof.Do. ctx is what the task was given to SubmitContext with, or carries itself, see Contexter; else it is
	// empty. run passes its context on to functions that take one. nil runs tasks as they are.
	Around func(ctx context.Context, run func(ctx context.Context))

	// OnPanic is told the value of a recovered panic and its stack, on the worker. nil
	// logs both to Logger as an error.
	OnPanic func(v any, stack []byte)
}

// complete checks the options and fills in the defaults, of which the numbers depend on the kind.
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
