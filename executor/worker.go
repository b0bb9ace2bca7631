package executor

import (
	"log/slog"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/go-eddy/eddy/internal/goid"
)

// worker is a goroutine of a pool. While it is on the idle list, it receives from next. The code that takes it off the
// list sends to next exactly once: true to look at the queue, false to end.
type worker struct {
	pool *Pool
	next chan bool
	cpu  int // to run on, -1 for any

	begun time.Time // with what it runs, in an adaptive pool
	due   time.Time // of that, zero = none
	timed bool      // its time counts there
	vain  bool      // it was of no use
}

// look tells the worker that call returned, if there is one, to look at the queue.
func (w *worker) look() {
	if w != nil {
		w.next <- true
	}
}

// call first gives free places to the line of parked runners, as many as are due. If runners are then left in the queue
// and a worker is free, call makes sure that one is coming. It starts a worker, or returns the warmest idle one for the
// caller to tell. p.mu is held.
//
// A worker is called to the queue, not given a runner, because the runner would wait for that worker behind younger
// ones. That wait is long where workers and submitter share a processor. Go's scheduler runs the goroutine that was
// woken last, and two that keep waking each other hold up the rest for 10 ms.
//
// One coming worker is enough, because a worker that takes a runner and leaves others calls the next. So a hundred short
// runners submitted in a row cost a wakeup or two, not a hundred.
func (p *Pool) call() *worker {
	if p.parking.line.len() > 0 {
		p.readmit()
	}
	if p.staff.coming > 0 || p.queue.len() == 0 {
		return nil
	}
	if n := len(p.staff.idle) - 1; n >= 0 {
		w := p.staff.idle[n]
		p.staff.idle[n] = nil
		p.staff.idle = p.staff.idle[:n]
		p.staff.unused = min(p.staff.unused, n)
		p.resting.Store(int64(n))
		p.staff.coming++
		return w
	}
	if p.staff.live < p.o.Workers {
		p.staff.live++
		p.workers.Store(int64(p.staff.live))
		p.staff.coming++
		w := &worker{pool: p, next: make(chan bool, 1), cpu: p.nextCPU()}
		w.launch()
	}
	return nil
}

// leave counts n workers that are about to end. p.mu is held.
func (p *Pool) leave(n int) {
	p.staff.live -= n
	p.workers.Store(int64(p.staff.live))
}

// start is the body of a new worker's goroutine.
func (w *worker) start() {
	w.pin()
	pprof.SetGoroutineLabels(w.pool.labels) // instead of those inherited from the submitter
	id := goid.Current()
	w.pool.mu.Lock()
	w.pool.staff.ids[id] = struct{}{}
	w.pool.staff.coming--
	w.run(id, w.take())
}

// run runs r and then what the queue holds.
func (w *worker) run(id uint64, r Runner) {
	exited := true
	var at *Place
	defer func() {
		if at != nil {
			at.vacate()
		}
		w.pool.forget(id)
		if exited { // the task ended the goroutine by runtime.Goexit
			go w.replace()
		}
	}()
	for r != nil {
		at = w.pool.occupy(r)
		w.pool.run(r)
		if at != nil {
			left, vain := at.vacate()
			w.timed, w.vain = w.timed && !left, vain
			at = nil
		}
		if w.pool.o.Around != nil {
			pprof.SetGoroutineLabels(w.pool.labels) // undoes what the hook has left
		}
		r = w.following()
	}
	exited = false
}

// replace continues a worker whose goroutine was ended by its task.
func (w *worker) replace() {
	w.pin()
	id := goid.Current()
	w.pool.mu.Lock()
	w.pool.staff.ids[id] = struct{}{}
	w.pool.mu.Unlock()
	w.run(id, w.following())
}

// forget takes a goroutine that ends out of the workers that OnWorker knows.
func (p *Pool) forget(id uint64) {
	p.mu.Lock()
	delete(p.staff.ids, id)
	p.mu.Unlock()
}

// OnWorker reports whether the calling goroutine is one of the pool's workers, which must not wait for the pool. Any
// goroutine; it takes about a microsecond.
func (p *Pool) OnWorker() bool {
	id := goid.Current()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.staff.ids[id]
	return ok
}

// following counts a runner as completed and returns the next one, nil when the worker must end.
func (w *worker) following() Runner {
	w.pool.counts.completed.Add(1)
	if w.pool.sim != nil {
		w.pool.sim.Pause()
	}
	w.pool.mu.Lock()
	if w.pool.adaptive != nil {
		w.pool.finished(w)
	}
	return w.take()
}

// take returns the oldest runner and waits while there is none. It returns nil when the worker must end. p.mu is held
// when it is called, and not when it returns.
func (w *worker) take() Runner {
	p := w.pool
	for {
		if p.staff.live > p.o.Workers && p.state == open { // after Resize; no worker is idle then, so another one comes to the queue
			p.leave(1)
			p.mu.Unlock()
			return nil
		}
		if p.returning() { // the place goes to a parked runner, which has a goroutine of its own
			p.leave(1)
			next := p.call()
			p.mu.Unlock()
			next.look()
			return nil
		}
		r, ok := p.next()
		if ok {
			p.queued.Add(-1)
			if p.parking.row > 0 {
				p.parking.row = 0
			}
		} else {
			r, ok = p.handOver()
		}
		if ok {
			if p.adaptive != nil {
				p.adaptive.began(w, r)
			}
			p.passOn()
			return r
		}
		if p.state != open || p.sim != nil {
			p.leave(1)
			told := p.offer()
			p.endIfDone()
			p.unlock()
			tellAll(told)
			return nil
		}
		p.staff.idle = append(p.staff.idle, w)
		p.resting.Store(int64(len(p.staff.idle)))
		p.setTimer()
		told := p.offer()
		p.unlock()
		tellAll(told)
		if !<-w.next {
			return nil
		}
		p.mu.Lock()
		p.staff.coming--
	}
}

// setTimer makes sure that retire will look at the idle workers. p.mu is held.
func (p *Pool) setTimer() {
	if p.staff.timing || p.staff.live <= p.o.Core {
		return
	}
	p.staff.timing = true
	p.staff.unused = 0
	if p.staff.timer == nil {
		p.staff.timer = time.AfterFunc(p.o.KeepAlive, p.retire)
		return
	}
	p.staff.timer.Reset(p.o.KeepAlive)
}

// retire ends the workers that were idle for the whole time since the last look. Workers are woken from the warm end of
// the list. So if the list never had fewer than n workers, the n coldest were never woken. One timer serves the pool,
// and an idle worker stores no time.
func (p *Pool) retire() {
	p.mu.Lock()
	if !p.staff.timing { // stopped
		p.mu.Unlock()
		return
	}
	ending := p.dropIdle(p.surplus(p.staff.unused))
	kept := len(p.staff.idle)
	p.staff.unused = kept
	if p.staff.timing = kept > 0 && p.staff.live > p.o.Core; p.staff.timing {
		p.staff.timer.Reset(p.o.KeepAlive)
	}
	p.mu.Unlock()
	for _, w := range ending {
		w.next <- false
	}
}

// run runs r and contains its panic.
func (p *Pool) run(r Runner) {
	defer p.contain()
	if p.o.Around != nil {
		p.runAround(r)
		return
	}
	r.Run()
}

// contain must be deferred around a task: it recovers, counts and reports a panic.
func (p *Pool) contain() {
	v := recover()
	if v == nil {
		return
	}
	p.counts.panics.Add(1)
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
