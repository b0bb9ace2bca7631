// Package pools keeps the executors that an endpoint has made and ends.
package pools

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-eddy/eddy/executor"
)

// Set holds pools that end together. The zero value is ready. Any goroutine.
type Set struct {
	mu   sync.Mutex
	list []*executor.Pool
}

// Add adds a pool. A pool that is added while End runs may be left out.
func (s *Set) Add(p *executor.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
}

// All returns the pools in the order in which they were added.
func (s *Set) All() []*executor.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// OnWorker reports whether the caller runs on a worker of a pool, which must not wait for the pool's end.
func (s *Set) OnWorker() bool { return slices.ContainsFunc(s.All(), (*executor.Pool).OnWorker) }

// End ends the pools side by side after they have run what waits. End returns when the last worker or ctx has ended.
func (s *Set) End(ctx context.Context) error {
	var wg sync.WaitGroup
	all := s.All()
	errs := make([]error, len(all))
	for i, p := range all {
		wg.Go(func() { _, errs[i] = p.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
