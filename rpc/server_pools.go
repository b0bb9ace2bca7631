package rpc

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// PoolKind is how a pool of the server grows. The kinds are those of Dubbo.
type PoolKind uint8

const (
	// PoolFixed has a set number of workers, for a steady load. The default.
	PoolFixed PoolKind = iota
	// PoolCached starts a worker for each call that finds none idle.
	PoolCached
	// PoolLimited grows and never shrinks.
	PoolLimited
	// PoolEager grows before it lets calls wait, and lets calls wait when it cannot grow.
	PoolEager
	poolKinds
)

var poolKindNames = [poolKinds]string{"fixed", "cached", "limited", "eager"}

// String returns the name that configurations use.
func (k PoolKind) String() string { return nameOf(k, poolKindNames[:], "pool kind") }

// ParsePoolKind returns the kind of that name. The error names the value and the choices.
func ParsePoolKind(name string) (PoolKind, error) {
	return parseName[PoolKind](name, poolKindNames[:], "pool kind")
}

// DefaultThreads is the number of workers of a fixed or limited pool whose PoolOptions.Threads is 0.
const DefaultThreads = 200

// PoolOptions are the limits of a pool. The zero value is a fixed pool of DefaultThreads workers without a queue: the
// call that finds all of them at work is refused at once. Set Queue where bursts of more than Threads calls are to wait
// instead. A field that is 0 has the default of its kind:
//
//	kind     Threads                  CoreThreads  Queue
//	fixed    200                      Threads      none
//	cached   executor.DefaultCached   0            none
//	limited  200                      all          none
//	eager    executor.DefaultCached   0            1
//
// These are the defaults of Dubbo, except that no queue and no number of workers is unbounded.
type PoolOptions struct {
	Kind        PoolKind
	Threads     int           // calls that run at once, at most
	CoreThreads int           // workers that stay however long they are idle
	Queue       int           // calls that wait for a worker, at most
	Adaptive    bool          // the pool finds by itself how many calls to run at once, at most Threads, and refuses by class what it cannot serve in time; see executor.Adaptive. Queue is executor.DefaultQueue then if it is 0
	KeepAlive   time.Duration // how long a worker above CoreThreads stays idle; 0 = 60 s. A fixed pool for which it is set shrinks to CoreThreads
}

// NewPool returns a pool with these limits, for WithPool. The caller ends the pool. base gives the rest: Dumper,
// OnExhausted, Logger, hooks; its Name and limits are replaced. The error names the field that is wrong.
func (o PoolOptions) NewPool(name string, base executor.Options) (*executor.Pool, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("rpc: pool %q: %w", name, err)
	}
	e := o.settings(base)
	e.Name = name
	pool, err := o.build(e)
	if err != nil {
		return nil, fmt.Errorf("rpc: pool %q: %w", name, err)
	}
	return pool, nil
}

func (o PoolOptions) build(e executor.Options) (*executor.Pool, error) {
	switch o.Kind {
	case PoolCached:
		return executor.NewCached(e)
	case PoolLimited:
		return executor.NewLimited(e)
	case PoolEager:
		return executor.NewEager(e)
	}
	return executor.NewFixed(e)
}

// settings translates the options for package executor, whose defaults are others.
func (o PoolOptions) settings(e executor.Options) executor.Options {
	e.Workers, e.Core, e.Queue, e.KeepAlive = o.Threads, o.CoreThreads, o.Queue, o.KeepAlive
	if o.Adaptive {
		e.Adaptive = &executor.Adaptive{}
	}
	switch {
	case e.Queue > 0:
	case o.Adaptive:
		e.Queue = executor.DefaultQueue
	case o.Kind == PoolEager:
		e.Queue = 1
	default:
		e.Queue = executor.HandOff
	}
	if o.Kind != PoolFixed {
		return e
	}
	if e.Workers == 0 {
		e.Workers = DefaultThreads
	}
	if o.KeepAlive == 0 && o.CoreThreads == 0 {
		e.Core = e.Workers
	}
	return e
}

func (o PoolOptions) check() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Threads", o.Threads}, {"CoreThreads", o.CoreThreads}, {"Queue", o.Queue}} {
		if f.value < 0 {
			return fmt.Errorf("PoolOptions.%s is %d: it must not be negative, no pool is without a bound", f.name, f.value)
		}
	}
	switch {
	case o.Kind >= poolKinds:
		return fmt.Errorf("PoolOptions.Kind is %d: it must be one of %s", o.Kind, strings.Join(poolKindNames[:], ", "))
	case o.KeepAlive < 0:
		return fmt.Errorf("PoolOptions.KeepAlive is %v: it must not be negative", o.KeepAlive)
	}
	return nil
}
