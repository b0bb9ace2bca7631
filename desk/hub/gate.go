package hub

import (
	"sync"

	"github.com/go-eddy/eddy/executor"
)

// gate gives each agent at most a share of the agent pool, so that one stuck agent cannot occupy it.
type gate struct {
	pool             *executor.Pool
	running, waiting int

	mu     sync.Mutex
	shares map[string]*share
}

type share struct {
	running int
	queue   []task
}

type task struct{ run, refused func() }

func newGate(p *executor.Pool, running, waiting int) *gate {
	return &gate{pool: p, running: running, waiting: waiting, shares: make(map[string]*share)}
}

// submit runs f on the pool now, or when one of the agent's operations has ended. It returns executor.ErrRejected when
// the agent's share or the pool is full. If f waits and the pool is full when its turn comes, refused is called instead.
func (g *gate) submit(agent string, f, refused func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	sh := g.shares[agent]
	if sh == nil {
		sh = &share{}
		g.shares[agent] = sh
	}
	if sh.running >= g.running {
		if len(sh.queue) >= g.waiting {
			return executor.ErrRejected
		}
		sh.queue = append(sh.queue, task{f, refused})
		return nil
	}
	err := g.start(agent, sh, f)
	if sh.running == 0 {
		delete(g.shares, agent)
	}
	return err
}

// start runs f on the pool. g.mu is held.
func (g *gate) start(agent string, sh *share, f func()) error {
	err := g.pool.SubmitFunc(func() {
		defer g.finished(agent, sh)
		f()
	})
	if err == nil {
		sh.running++
	}
	return err
}

// finished starts the next operation of the agent. Operations that the pool refuses are told.
func (g *gate) finished(agent string, sh *share) {
	var refused []func()
	g.mu.Lock()
	sh.running--
	for len(sh.queue) > 0 && sh.running < g.running {
		next := sh.queue[0]
		sh.queue[0] = task{}
		sh.queue = sh.queue[1:]
		if g.start(agent, sh, next.run) != nil {
			refused = append(refused, next.refused)
		}
	}
	if sh.running == 0 && len(sh.queue) == 0 {
		delete(g.shares, agent)
	}
	g.mu.Unlock()
	for _, f := range refused {
		f()
	}
}
