package rpc

import (
	"errors"
	"sync"

	"github.com/go-eddy/eddy/executor"
)

// callbackPool is a pool that ends calls, with a list of the tasks that wait for room in it.
type callbackPool struct {
	client *Client
	pool   *executor.Pool
	room   *executor.Room

	mu     sync.Mutex
	parked []executor.Runner
}

func newCallbackPool(cl *Client, pool *executor.Pool) *callbackPool {
	p := &callbackPool{client: cl, pool: pool}
	p.room = executor.NewRoom(p.unpark)
	return p
}

// ownCallbackPool also makes the pool, with room for every call with a Future.
func ownCallbackPool(cl *Client, name string) (*callbackPool, error) {
	pool, err := executor.NewFixed(executor.Options{Name: name, Workers: DefaultCallbacks, Queue: cl.o.MaxAsync, Logger: cl.o.Logger})
	if err != nil {
		return nil, err
	}
	return newCallbackPool(cl, pool), nil
}

// take has the pool decode a response for a caller that waits. If the pool is full or closed, the caller decodes it.
func (p *callbackPool) take(c *call) {
	if err := p.pool.Submit(c); err != nil {
		p.client.stats.poolFull.Add(1)
		c.ready <- struct{}{}
	}
}

// submit gives r to the pool, or parks r behind the tasks that wait for room. If the pool is closed, r runs here; its
// owner should not close it before the client.
func (p *callbackPool) submit(r executor.Runner) {
	if !p.waits() && p.try(r) {
		return
	}
	p.client.stats.parked.Add(1)
	p.mu.Lock()
	p.parked = append(p.parked, r)
	p.mu.Unlock()
	p.pool.AwaitRoom(p.room)
}

func (p *callbackPool) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.parked) > 0
}

// try gives r to the pool and reports false if there is no room. If the pool is closed, r runs here.
func (p *callbackPool) try(r executor.Runner) bool {
	err := p.pool.Submit(r)
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
func (p *callbackPool) unpark() {
	for left := false; ; {
		r := p.next()
		switch {
		case r != nil && p.try(r):
			left = false
		case r != nil:
			p.putBack(r)
			p.pool.AwaitRoom(p.room)
			return
		case left:
			return
		default:
			p.pool.LeaveRoom(p.room)
			left = true
		}
	}
}

// next takes out the task that has waited longest, nil if there is none.
func (p *callbackPool) next() executor.Runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.parked) == 0 {
		return nil
	}
	r := p.parked[0]
	p.parked[0] = nil
	p.parked = p.parked[1:]
	return r
}

func (p *callbackPool) putBack(r executor.Runner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = append([]executor.Runner{r}, p.parked...)
}
