package executor

import (
	"log/slog"
	"runtime"

	"github.com/go-eddy/eddy/internal/sys"
)

// tryCPUs reports whether a thread can be bound to each of the processors, on a thread that ends afterwards.
func tryCPUs(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the bound thread ends with this goroutine
		for _, cpu := range cpus {
			if err := sys.SetAffinity([]int{cpu}); err != nil {
				result <- err
				return
			}
		}
		result <- nil
	}()
	return <-result
}

// pin gives the calling worker a thread on its processor. That the processor can be had was tried when the pool was
// made; if it has gone since, the worker runs where it can.
func (w *worker) pin() {
	pinTo(w.cpu, w.pool.o.Name)
}

// pinTo gives the calling goroutine a thread on a processor, unless that is below 0.
func pinTo(cpu int, name string) {
	if cpu < 0 {
		return
	}
	runtime.LockOSThread() // never unlocked: the bound thread ends with the goroutine
	if err := sys.SetAffinity([]int{cpu}); err != nil {
		slog.Default().Warn("executor: a worker is not pinned", "of", name, "err", err)
	}
}

// nextCPU returns the processor of the next worker, -1 when workers are not pinned. p.mu is held.
func (p *Pool) nextCPU() int {
	if len(p.o.CPUs) == 0 {
		return -1
	}
	p.started++
	return p.o.CPUs[(p.started-1)%len(p.o.CPUs)]
}
