package executor

import (
	"fmt"
	"time"
)

// Policy is what a pool does with a runner that is submitted while no worker is free and the queue is full. The zero
// value refuses the runner, like Abort.
//
// A Policy applies to Pool.Submit, SubmitFunc and SubmitContext. Items of strands and tasks of keys have an order, and
// losing one turn would lose all of them. Their submitter therefore always gets ErrRejected.
type Policy struct {
	kind policyKind
	wait time.Duration
	may  func() bool
	told func(Runner)
}

type policyKind uint8

const (
	abort policyKind = iota
	callerRuns
	discard
	discardOldest
	block
)

// Abort refuses the runner with ErrRejected.
func Abort() Policy { return Policy{} }

// CallerRuns runs the runner on the goroutine that submits it, which slows that goroutine down. may is asked there
// whether this is allowed. Where may says no, such as on an event loop, the runner is refused. may is required.
func CallerRuns(may func() bool) Policy { return Policy{kind: callerRuns, may: may} }

// Discard drops the runner. Submit returns nil, and told gets the runner on the goroutine that submits, to release what
// it holds. told may be nil.
func Discard(told func(Runner)) Policy { return Policy{kind: discard, told: told} }

// DiscardOldest drops the runner that has waited longest and takes the new one. told gets the old one on the goroutine
// that submits; told may be nil. Jobs and the turns of strands and keys are not dropped. If the first 64 that wait are
// such, or nothing waits, the new runner is refused.
func DiscardOldest(told func(Runner)) Policy { return Policy{kind: discardOldest, told: told} }

// Block lets the goroutine that submits wait for room, in the order of arrival. The runner is refused when there is no
// room within the timeout. may is asked first whether the goroutine may wait. Where may says no, such as on an event
// loop, the runner is refused at once. may is required.
func Block(timeout time.Duration, may func() bool) Policy {
	return Policy{kind: block, wait: timeout, may: may}
}

func (o Policy) check() error {
	switch {
	case (o.kind == callerRuns || o.kind == block) && o.may == nil:
		return fmt.Errorf("executor: Options.Policy: CallerRuns and Block need a function that says who may")
	case o.kind == block && o.wait <= 0:
		return fmt.Errorf("executor: Options.Policy: the timeout of Block is %v, not above 0", o.wait)
	}
	return nil
}

// oldestLimit bounds how far DiscardOldest looks.
const oldestLimit = 64

// overflow is Submit to a pool that was found full. There may be room by now.
func (p *Pool) overflow(r Runner) error {
	policy := p.o.Policy
	if policy.may != nil && !policy.may() {
		policy.kind = abort
	}
	p.mu.Lock()
	if policy.kind == abort || p.state != open || p.room() {
		return p.submit(r)
	}
	if policy.kind == block {
		return p.await(r)
	}
	p.exhaust()
	switch policy.kind {
	case callerRuns:
		p.mu.Unlock()
		p.counts.callerRan.Add(1)
		p.run(r)
		return nil
	case discardOldest:
		old, ok := p.queue.plain.remove(oldestLimit, func(r Runner) bool { return !kept(r) })
		if !ok {
			defer p.mu.Unlock()
			return p.refuse()
		}
		p.queued.Add(-1)
		p.push(r)
		r = old
	}
	p.mu.Unlock()
	p.counts.discarded.Add(1)
	if policy.told != nil {
		policy.told(r)
	}
	return nil
}

// turnRunner is the turn of a strand or key.
type turnRunner interface {
	Runner
	drop() bool // gives the items to the function of DropWith, and reports false when there is none
}

// waiter is a submission that waits for room.
type waiter struct {
	r    Runner
	done chan error // of capacity 1
}

// await waits for room for r. p.mu is held when it is called, and not when it returns.
func (p *Pool) await(r Runner) error {
	p.counts.waited.Add(1)
	w := &waiter{r: r, done: make(chan error, 1)}
	p.waiters.push(w)
	p.mu.Unlock()
	timer := time.NewTimer(p.o.Policy.wait)
	defer timer.Stop()
	select {
	case err := <-w.done:
		return err
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.waiters.remove(p.waiters.len(), func(o *waiter) bool { return o == w }); !ok {
		return <-w.done // the runner was taken at the last moment
	}
	p.exhaust()
	return p.refuse()
}

// admit takes the runners of waiting submissions while there is room. p.mu is held.
func (p *Pool) admit() {
	for p.waiters.len() > 0 && p.room() {
		w, _ := p.waiters.pop()
		p.push(w.r)
		w.done <- nil
	}
}

// handOver takes the runner of a waiting submission, past the queue, for a worker that finds the queue empty. p.mu is
// held.
func (p *Pool) handOver() (Runner, bool) {
	w, ok := p.waiters.pop()
	if !ok {
		return nil, false
	}
	p.counts.submitted.Add(1)
	w.done <- nil
	return w.r, true
}

// dismiss answers waiting submissions with ErrClosed. p.mu is held.
func (p *Pool) dismiss() {
	for w, ok := p.waiters.pop(); ok; w, ok = p.waiters.pop() {
		w.done <- ErrClosed
	}
}

// refuse counts a refusal and returns its error. p.mu is held.
func (p *Pool) refuse() error {
	p.counts.rejected.Add(1)
	return p.full
}
