// Package follow keeps the last good answer of a resolver.
package follow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

// Every is the least time between two answers that are applied. Of those between, the last one counts.
const Every = time.Second

// Follower keeps the last good answer of a resolver. An error changes nothing. Neither does an answer with too many instances or one that is wrong, nor an
// empty one when instances are known. Fill in the fields, and call Run once.
type Follower struct {
	Resolver discovery.Resolver
	Pauses   retry.Schedule              // between two calls of Watch
	Apply    func([]discovery.Instance)  // a good answer; also an empty one, if it is the first. On Run's goroutine
	Failed   func(err error, first bool) // why an answer was not applied; first says that none has been. On Run's goroutine

	known   bool // some answer was applied
	filled  bool // by an answer with instances
	answers chan []discovery.Instance

	resolves, failures, empty, refused, held atomic.Uint64
}

// Put adds the numbers of the Follower to s.
func (f *Follower) Put(s *balance.Stats) {
	s.Resolves, s.ResolveFailures, s.ResolveEmpty = f.resolves.Load(), f.failures.Load(), f.empty.Load()
	s.ResolveRefused, s.ResolveHeld = f.refused.Load(), f.held.Load()
}

// Refresh has the resolver asked before its time, if it can be. Any goroutine.
func (f *Follower) Refresh() {
	if r, ok := f.Resolver.(discovery.Refresher); ok {
		r.Refresh()
	}
}

// Run follows the resolver until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	f.answers = make(chan []discovery.Instance, 1)
	ended := make(chan error, 1)
	watch := func() {
		go func() { ended <- f.watch(ctx) }()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	var again <-chan time.Time // when Watch is called again
	last := time.Now().Add(-Every)
	var next []discovery.Instance // not applied yet
	waits := false
	watch()
	for watching := true; watching || ctx.Err() == nil; {
		select {
		case list := <-f.answers:
			if waits {
				f.held.Add(1)
			}
			if gap := Every - time.Since(last); gap > 0 {
				if !waits {
					timer.Reset(gap)
				}
				next, waits = list, true
				continue
			}
			f.take(list)
			last = time.Now()
		case <-timer.C:
			f.take(next)
			last, next, waits = time.Now(), nil, false
		case err := <-ended:
			watching = false
			if ctx.Err() != nil {
				return
			}
			f.fail(&f.failures, err)
			again = time.After(f.Pauses.Failed())
		case <-again:
			again, watching = nil, true
			watch()
		case <-ctx.Done():
			if watching {
				<-ended
			}
			return
		}
	}
}

// errEnded is the error of a Watch that has returned without one.
var errEnded = errors.New("discovery: Watch has returned before its context has ended")

// watch calls the resolver's Watch, whose answers do not block it: a new one replaces one that nobody has taken.
func (f *Follower) watch(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("discovery: Watch has panicked: %v", v)
		}
	}()
	err = f.Resolver.Watch(ctx, func(list []discovery.Instance) {
		for {
			select {
			case f.answers <- list:
				return
			default:
			}
			select {
			case <-f.answers:
				f.held.Add(1)
			default:
			}
		}
	})
	if err == nil {
		err = errEnded
	}
	return err
}

// errEmpty is the error of an answer without instances when some are known.
var errEmpty = errors.New("discovery: an answer without instances; those that are known stay")

// take applies an answer, if it is good.
func (f *Follower) take(list []discovery.Instance) {
	if err := discovery.Check(list); err != nil {
		f.fail(&f.refused, err)
		return
	}
	if len(list) == 0 && f.filled {
		f.fail(&f.empty, errEmpty)
		return
	}
	f.Pauses.Succeeded()
	f.resolves.Add(1)
	f.known, f.filled = true, f.filled || len(list) > 0
	f.Apply(list)
}

// fail counts an answer that was not applied.
func (f *Follower) fail(count *atomic.Uint64, err error) {
	count.Add(1)
	f.Failed(err, !f.known)
	f.known = true
}
