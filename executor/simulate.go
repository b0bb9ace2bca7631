package executor

import "github.com/go-eddy/eddy/internal/simhook"

// Simulate makes a pool that was given no work yet run its workers on a simulated machine. A worker then ends when it
// finds nothing to do. Simulate is for the tests of this module, because only this module can make the argument.
func Simulate(p *Pool, m simhook.Workers) { p.sim = m }

// launch begins the life of a worker. p.mu is held.
func (w *worker) launch() {
	if m := w.pool.sim; m != nil {
		m.Go(w.pool.o.Name, w.start)
		return
	}
	go w.start()
}
