package executor

import "github.com/go-eddy/eddy/internal/simhook"

func init() { simhook.SimulatePool = simulate } //nolint:gochecknoinits // the door is internal and must be open at once

// simulate is simhook.SimulatePool.
func simulate(pool any, m simhook.Workers) { pool.(*Pool).sim = m }

// launch begins the life of a worker. p.mu is held.
func (w *worker) launch() {
	if m := w.pool.sim; m != nil {
		m.Go(w.pool.o.Name, w.start)
		return
	}
	go w.start()
}
