package executor

import (
	"log/slog"
	"runtime/debug"
	"time"
)

// worker is a goroutine of a pool. While it is on the idle list it receives from next,
// which whoever takes it off the list sends to exactly once: a runner, or nil to end.
type worker struct {
	pool *Pool
	next chan Runner
	cpu  int // to run on, -1 for any
}

// start starts a worker with its first runner. p.mu is held.
func (p *Pool) start(r Runner) {
	p.live++
	p.workers.Store(int64(p.live))
	w := &worker{pool: p, next: make(chan Runner, 1), cpu: p.nextCPU()}
	go w.run(r)
}

// wake takes the warmest worker off the idle list. p.mu is held.
func (p *Pool) wake() *worker {
	n := len(p.idle) - 1
	w := p.idle[n]
	p.idle[n] = nil
	p.idle = p.idle[:n]
	p.unused = min(p.unused, n)
	p.resting.Store(int64(n))
	return w
}

// leave counts n workers that are about to end. p.mu is held.
func (p *Pool) leave(n int) {
	p.live -= n
	p.workers.Store(int64(p.live))
}

func (w *worker) run(r Runner) {
	w.pin()
	exited := true
	defer func() {
		if exited { // the task ended the goroutine by runtime.Goexit
			go w.replace()
		}
	}()
	for r != nil {
		w.pool.call(r)
		r = w.following()
	}
	exited = false
}

// replace goes on where a worker was ended by its task.
func (w *worker) replace() { w.run(w.following()) }

// following counts a runner as completed and returns the next one, nil when the
// worker shall end. It waits while there is nothing to run.
func (w *worker) following() Runner {
	p := w.pool
	p.completed.Add(1)
	p.mu.Lock()
	if r, ok := p.queue.pop(); ok {
		p.queued.Add(-1)
		p.mu.Unlock()
		return r
	}
	if p.state != open {
		p.leave(1)
		p.endIfDone()
		p.mu.Unlock()
		return nil
	}
	p.idle = append(p.idle, w)
	p.resting.Store(int64(len(p.idle)))
	p.setTimer()
	p.mu.Unlock()
	return <-w.next
}

// setTimer makes sure that the idle workers are looked at. p.mu is held.
func (p *Pool) setTimer() {
	if p.timing {
		return
	}
	p.timing = true
	p.unused = 0
	if p.timer == nil {
		p.timer = time.AfterFunc(p.o.KeepAlive, p.retire)
		return
	}
	p.timer.Reset(p.o.KeepAlive)
}

// retire ends the workers that were idle for the whole time since the last look.
// Workers are woken from the warm end of the list, so those are as many as the list
// never went below, from the other end. One timer serves the pool and an idle worker
// stores no time.
func (p *Pool) retire() {
	p.mu.Lock()
	if !p.timing { // stopped
		p.mu.Unlock()
		return
	}
	n := p.unused
	ending := append([]*worker(nil), p.idle[:n]...)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	p.resting.Store(int64(kept))
	p.leave(n)
	p.unused = kept
	if p.timing = kept > 0; p.timing {
		p.timer.Reset(p.o.KeepAlive)
	}
	p.mu.Unlock()
	for _, w := range ending {
		w.next <- nil
	}
}

// call runs r and contains its panic.
func (p *Pool) call(r Runner) {
	defer p.contain()
	r.Run()
}

// contain must be deferred around a task: it recovers, counts and reports a panic.
func (p *Pool) contain() {
	v := recover()
	if v == nil {
		return
	}
	p.panics.Add(1)
	p.report(v, debug.Stack())
}

// report tells OnPanic and survives a panic in that too.
func (p *Pool) report(v any, stack []byte) {
	defer func() {
		if second := recover(); second != nil {
			slog.Default().Error("executor: panic in OnPanic", "pool", p.o.Name, "panic", second, "reported", v)
		}
	}()
	p.o.OnPanic(v, stack)
}
