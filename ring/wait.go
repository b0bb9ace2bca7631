package ring

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Waiter passes the time between two looks at a ring. A value belongs to one goroutine.
type Waiter interface {
	// Wait passes some time. It reports true when its budget is used up, so that a more patient way should follow.
	Wait() (done bool)
	// Reset starts the budget anew, after a look that was successful.
	Reset()
}

// Spin does nothing, n times before its budget is used up; n below 1 means for ever. Spin has the shortest latency, and
// keeps a processor from everybody else. Use it for pinned goroutines on processors of their own.
func Spin(n int) Waiter { return &counted{limit: n, wait: func() {}} }

// Yield lets other goroutines run, n times before its budget is used up; n below 1 means for ever.
func Yield(n int) Waiter { return &counted{limit: n, wait: runtime.Gosched} }

// Sleep sleeps for d, n times before its budget is used up; n below 1 means for ever. Operating systems make short
// sleeps longer, and below about 100 µs the difference is large.
func Sleep(d time.Duration, n int) Waiter {
	return &counted{limit: n, wait: func() { time.Sleep(d) }}
}

type counted struct {
	limit, n int
	wait     func()
}

func (c *counted) Wait() bool {
	c.wait()
	if c.limit < 1 {
		return false
	}
	c.n++
	return c.n >= c.limit
}

func (c *counted) Reset() { c.n = 0 }

// BackOff sleeps for start at first, then for step longer each time, up to most. Its budget is never used up.
func BackOff(start, step, most time.Duration) Waiter {
	return &backOff{start: start, step: step, most: most, next: start}
}

type backOff struct{ start, step, most, next time.Duration }

func (b *backOff) Wait() bool {
	time.Sleep(b.next)
	b.next += min(b.step, b.most-b.next)
	return false
}

func (b *backOff) Reset() { b.next = b.start }

// Compose waits as the first Waiter does until its budget is used up, then as the next. The last one stays.
func Compose(first Waiter, then ...Waiter) Waiter {
	return &composed{all: append([]Waiter{first}, then...)}
}

type composed struct {
	all []Waiter
	at  int
}

func (c *composed) Wait() bool {
	if !c.all[c.at].Wait() {
		return false
	}
	if c.at < len(c.all)-1 {
		c.at++
		return false
	}
	return true
}

func (c *composed) Reset() {
	for i := range c.at + 1 {
		c.all[i].Reset()
	}
	c.at = 0
}

// Bell lets one consumer sleep until a producer rings. Ringing costs one load while the consumer is awake. No ring is
// lost and nobody is woken for nothing, because the consumer announces its sleep, looks once more, and then sleeps.
type Bell struct {
	asleep atomic.Bool
	wake   chan struct{}
}

// NewBell makes a bell.
func NewBell() *Bell { return &Bell{wake: make(chan struct{}, 1)} }

// Ring wakes the consumer if it sleeps or is about to. Call it after Publish. Any goroutine; it never waits.
func (b *Bell) Ring() {
	if b.asleep.Load() && b.asleep.CompareAndSwap(true, false) {
		b.wake <- struct{}{} // never blocks: only the goroutine that changed asleep sends, and the consumer receives before it sleeps again
	}
}

// Wait sleeps until Ring, unless something reports true, and returns true. Wait returns false when stop is closed.
// something looks at the consumer's rings.
func (b *Bell) Wait(something func() bool, stop <-chan struct{}) bool {
	b.asleep.Store(true)
	if something() {
		if !b.asleep.CompareAndSwap(true, false) {
			<-b.wake // rung meanwhile
		}
		return true
	}
	select {
	case <-b.wake:
		return true
	case <-stop:
		if !b.asleep.CompareAndSwap(true, false) {
			<-b.wake
		}
		return false
	}
}
