package executor

import "fmt"

// Resize changes Options.Workers and Options.Queue of a pool that may be at work. 0 leaves a limit as it is, and HandOff
// means no queue. Work that was taken is kept. Workers above the new limit finish what they run and then end. Above a
// smaller queue, nothing new is taken until the queue is short enough. A core larger than the workers shrinks with them;
// that of a limited pool follows them. Of an adaptive
// pool only the queue can be changed. A closed pool answers ErrClosed. Any goroutine; Resize does not block.
func (p *Pool) Resize(workers, queue int) error {
	if field, v, ok := checkLimits(workers, queue); !ok {
		return fmt.Errorf("executor: Resize: %s is %d, outside its range", field, v)
	}
	p.mu.Lock()
	if p.state != open {
		p.mu.Unlock()
		return ErrClosed
	}
	if p.adaptive != nil && workers != 0 {
		p.mu.Unlock()
		return fmt.Errorf("executor: Resize: Workers is %d, but pool %q is adaptive and finds its limit itself", workers, p.o.Name)
	}
	if workers == 0 {
		workers = p.o.Workers
	}
	p.limit(workers, orDefault(queue, p.o.Queue))
	p.o.Core = min(p.o.Core, workers)
	ending := p.dropIdle(min(p.staff.live-workers, len(p.staff.idle)))
	if len(p.staff.idle) > 0 {
		p.setTimer() // a smaller core lets more workers end
	}
	p.passOn()
	for _, w := range ending {
		w.next <- false
	}
	return nil
}

// dropIdle takes the n coldest workers off the idle list for the caller to end. p.mu is held.
func (p *Pool) dropIdle(n int) (ending []*worker) {
	if n <= 0 {
		return nil
	}
	ending = append(ending, p.staff.idle[:n]...)
	kept := copy(p.staff.idle, p.staff.idle[n:])
	clear(p.staff.idle[kept:])
	p.staff.idle = p.staff.idle[:kept]
	p.resting.Store(int64(kept))
	p.staff.unused = min(p.staff.unused, kept)
	p.leave(n)
	return ending
}
