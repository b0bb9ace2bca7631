package executor

import (
	"log/slog"
	"runtime"

	"github.com/go-eddy/eddy/internal/sys"
)

// tryCPUs returns an error if a thread cannot be bound to one of the processors. It tries on a thread that ends
// afterwards.
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

// pin binds the calling worker to a thread on its processor. The processor was tried when the pool was made. If it has
// gone since, the worker runs where it can.
func (w *worker) pin() {
	pinTo(w.cpu, w.pool.o.Name)
}

// pinTo binds the calling goroutine to a thread on the processor cpu, unless cpu is below 0.
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
	p.staff.started++
	return p.o.CPUs[(p.staff.started-1)%len(p.o.CPUs)]
}
