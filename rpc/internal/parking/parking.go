// Package parking gives tasks to a pool that may be full. Tasks without room wait in a list, not their submitter.
package parking

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
)

// Lot is a pool with a list of the tasks that wait for room in it. The list has no bound of its own: the submitter bounds
// its tasks. Any goroutine.
type Lot struct {
	Pool *executor.Pool

	count *atomic.Uint64
	room  *executor.Room
	mu    sync.Mutex
	tasks []executor.Runner
}

// New returns a Lot in front of a pool. count gets the number of tasks that had to wait.
func New(pool *executor.Pool, count *atomic.Uint64) *Lot {
	p := &Lot{Pool: pool, count: count}
	p.room = executor.NewRoom(p.unpark)
	return p
}

// Submit gives r to the pool, or parks r behind the tasks that wait for room. If the pool is closed, r runs here; its
// owner should not close it before the client.
func (p *Lot) Submit(r executor.Runner) {
	if !p.waits() && p.try(r) {
		return
	}
	p.count.Add(1)
	p.mu.Lock()
	p.tasks = append(p.tasks, r)
	p.mu.Unlock()
	p.Pool.AwaitRoom(p.room)
}

func (p *Lot) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks) > 0
}

// try gives r to the pool and reports false if there is no room. If the pool is closed, r runs here.
func (p *Lot) try(r executor.Runner) bool {
	err := p.Pool.Submit(r)
	if errors.Is(err, executor.ErrRejected) {
		return false
	}
	if err != nil {
		r.Run()
	}
	return true
}

// unpark gives parked tasks to the pool when there is room. With none left unpark gives up its place in the pool's line,
// and looks once more because a task may have been parked meanwhile.
func (p *Lot) unpark() {
	for left := false; ; {
		r := p.next()
		switch {
		case r != nil && p.try(r):
			left = false
		case r != nil:
			p.putBack(r)
			p.Pool.AwaitRoom(p.room)
			return
		case left:
			return
		default:
			p.Pool.LeaveRoom(p.room)
			left = true
		}
	}
}

// next takes out the task that has waited longest, nil if there is none.
func (p *Lot) next() executor.Runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tasks) == 0 {
		return nil
	}
	r := p.tasks[0]
	p.tasks[0] = nil
	p.tasks = p.tasks[1:]
	return r
}

func (p *Lot) putBack(r executor.Runner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = append([]executor.Runner{r}, p.tasks...)
}
