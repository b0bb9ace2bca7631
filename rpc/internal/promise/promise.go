// Package promise is the outcome of something that ends once.
package promise

import "sync"

// Promise ends once, with an error or without, and then runs the functions that wait for it. The zero value is ready. Any
// goroutine.
type Promise struct {
	mu    sync.Mutex
	done  chan struct{} // nil until somebody asks; ended after the end
	err   error
	thens []func() // not nil after the end while they run
}

// ended is what Done returns after the end.
var ended = make(chan struct{})

func init() { close(ended) }

// Done returns a channel that is closed when the promise has ended.
func (p *Promise) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
	}
	return p.done
}

// Ended reports whether the promise has ended.
func (p *Promise) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done == ended
}

// Err returns what the promise has ended with, nil before.
func (p *Promise) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Then has End run fn, behind the functions of earlier calls. After the end, when all of these have run, Then returns
// false and drops fn.
func (p *Promise) Then(fn func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == ended && p.thens == nil {
		return false
	}
	p.thens = append(p.thens, fn)
	return true
}

// End ends the promise and has run call its functions one after the other, including those added meanwhile. Call End
// once.
func (p *Promise) End(err error, run func(fn func())) {
	p.mu.Lock()
	if p.done != nil {
		close(p.done)
	}
	p.done, p.err = ended, err
	for len(p.thens) > 0 {
		fn := p.thens[0]
		p.mu.Unlock()
		run(fn)
		p.mu.Lock()
		p.thens = p.thens[1:]
	}
	p.thens = nil
	p.mu.Unlock()
}
