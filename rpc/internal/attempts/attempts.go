// Package attempts makes a call again when that may help and the budget allows it, and beside one that is late.
package attempts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
)

// Again says whether a call may be made again.
type Again uint8

const (
	// No: it was answered, or another attempt would end the same way.
	No Again = iota
	// IfIdempotent: it may have been executed.
	IfIdempotent
	// Yes: it was certainly not executed.
	Yes
)

// Verdict is what an attempt means.
type Verdict struct {
	Outcome balance.Outcome
	Again   Again
	After   time.Duration // the least pause before the next attempt, as the server advises
}

// ErrBroken is the error of a call that was not made because the breaker of its service is open.
var ErrBroken = errors.New("the calls to the service fail: its circuit breaker is open")

// most bounds the services that have a breaker. Calls to others have none.
const most = 1000

// Maker makes the calls of a client. Any goroutine.
type Maker struct {
	o        balance.Attempts
	budget   *balance.Budget
	now      func() int64
	latency  balance.Latency
	breakers sync.Map // by service
	known    atomic.Int32

	retries, hedges, won, over, broken atomic.Uint64
}

// New returns a Maker, or nil if o makes each call once. The error names the setting that makes no sense.
func New(o balance.Attempts) (*Maker, error) {
	if err := o.Complete(); err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong
	}
	if !o.On() {
		return nil, nil //nolint:nilnil // callers ask
	}
	budget, err := balance.NewBudget(o.Budget, o.Reserve)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong
	}
	epoch := time.Now()
	return &Maker{o: o, budget: budget, now: func() int64 { return int64(time.Since(epoch)) }}, nil
}

// Put adds the numbers of the Maker to s. A nil Maker has none.
func (m *Maker) Put(s *balance.Stats) {
	if m == nil {
		return
	}
	s.Retries, s.Hedges, s.HedgesWon = m.retries.Load(), m.hedges.Load(), m.won.Load()
	s.OverBudget, s.BrokenCalls = m.over.Load(), m.broken.Load()
}

// breaker returns the breaker of a service, nil for none.
func (m *Maker) breaker(service any) *balance.Breaker {
	if m.o.Breaker.Failures == 0 && m.o.Breaker.Ratio == 0 {
		return nil
	}
	if b, ok := m.breakers.Load(service); ok {
		return b.(*balance.Breaker)
	}
	if m.known.Load() >= most {
		return nil
	}
	fresh, err := balance.NewBreaker(m.o.Breaker)
	if err != nil {
		return nil // New has checked it
	}
	b, found := m.breakers.LoadOrStore(service, fresh)
	if !found {
		m.known.Add(1)
	}
	return b.(*balance.Breaker)
}

// Call is a call that may be made several times.
type Call[T any] struct {
	Service    any       // comparable; each has a breaker
	Idempotent bool      // it may be executed more than once
	By         time.Time // its deadline, zero for none. The context's counts too

	Attempt func(ctx context.Context) (T, error) // also two at a time
	Judge   func(T, error) Verdict
	Drop    func(T)                     // releases a result that is not returned; nil = nothing to do
	Keep    func(T, context.CancelFunc) // releases the context of the result that is returned, at its end; nil = at once
}

// result is that of an attempt. end ends its context.
type result[T any] struct {
	v       T
	err     error
	end     context.CancelFunc
	verdict Verdict
}

// drop releases a result that is not returned.
func (c *Call[T]) drop(r *result[T]) {
	if c.Drop != nil {
		c.Drop(r.v)
	}
	r.end()
}

// Do makes a call, on the calling goroutine. Another goroutine makes a second attempt beside a late one; Do waits for it, too.
func Do[T any](ctx context.Context, m *Maker, c *Call[T]) (T, error) {
	b := m.breaker(c.Service)
	m.budget.Call()
	for n := 1; ; n++ {
		if b != nil && !b.Allow(m.now()) {
			m.broken.Add(1)
			var none T
			return none, ErrBroken
		}
		r := once(ctx, m, c)
		if b != nil {
			if now := m.now(); b.Done(now, r.verdict.Outcome) {
				b.Open(now)
			}
		}
		if pause, again := m.again(ctx, c.Idempotent, c.By, r.verdict, n); !again || !wait(ctx, pause) {
			if c.Keep != nil {
				c.Keep(r.v, r.end)
			} else {
				r.end()
			}
			return r.v, r.err
		}
		c.drop(&r)
		m.retries.Add(1)
	}
}

// again reports whether a call is made again after n attempts, and when.
func (m *Maker) again(ctx context.Context, idempotent bool, by time.Time, v Verdict, n int) (pause time.Duration, again bool) {
	if n >= m.o.Max || v.Again == No || v.Again == IfIdempotent && !idempotent {
		return 0, false
	}
	pause = m.o.Pause << (n - 1)
	pause = max(pause/2+rand.N(pause/2+1), v.After)
	for _, end := range []time.Time{by, deadline(ctx)} {
		if !end.IsZero() && time.Until(end) <= pause {
			return 0, false
		}
	}
	if !m.budget.Take() {
		m.over.Add(1)
		return 0, false
	}
	return pause, true
}

func deadline(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}

// wait waits, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// hedgeAfter returns when a second attempt is made; 0 for never.
func (m *Maker) hedgeAfter(idempotent bool) time.Duration {
	if !idempotent {
		return 0
	}
	if m.o.HedgeAt > 0 {
		if d, ok := m.latency.At(m.o.HedgeAt); ok {
			return d
		}
	}
	return m.o.Hedge
}

// attempt makes one attempt, whose context end ends. With safe, its panic is an error.
func attempt[T any](ctx context.Context, end context.CancelFunc, m *Maker, c *Call[T], safe bool) (r result[T]) {
	r.end = end
	if safe {
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("a second attempt has panicked: %v", v)
				r.verdict = Verdict{Outcome: balance.Unknown}
			}
		}()
	}
	begun := m.now()
	r.v, r.err = c.Attempt(ctx)
	r.verdict = c.Judge(r.v, r.err)
	if m.o.HedgeAt > 0 && r.verdict.Outcome == balance.Succeeded {
		m.latency.Add(time.Duration(m.now() - begun))
	}
	return r
}

// once makes an attempt, and a second one beside it if it is late.
func once[T any](ctx context.Context, m *Maker, c *Call[T]) result[T] {
	first, endFirst := context.WithCancel(ctx)
	after := m.hedgeAfter(c.Idempotent)
	if after == 0 {
		return attempt(first, endFirst, m, c, false)
	}
	h := &hedge[T]{m: m, c: c, endFirst: endFirst, done: make(chan struct{})}
	second, endSecond := context.WithCancel(ctx)
	timer := time.AfterFunc(after, func() { h.second(second, endSecond) })
	r := attempt(first, endFirst, m, c, false)
	answered := r.verdict.Outcome == balance.Succeeded && h.answered.CompareAndSwap(false, true)
	if timer.Stop() { // there is no second one
		endSecond()
		return r
	}
	if answered {
		endSecond()
	}
	<-h.done
	switch {
	case !h.made:
		endSecond()
		return r
	case h.won:
		m.won.Add(1)
		c.drop(&r)
		return h.r
	}
	c.drop(&h.r)
	return r
}

// hedge is the second attempt at a call.
type hedge[T any] struct {
	m        *Maker
	c        *Call[T]
	endFirst context.CancelFunc
	answered atomic.Bool // one of the two has an answer
	done     chan struct{}

	made bool // this and the following are read after done
	won  bool
	r    result[T]
}

// second makes the attempt, if the budget allows it. On a goroutine of its own.
func (h *hedge[T]) second(ctx context.Context, end context.CancelFunc) {
	defer close(h.done)
	if h.answered.Load() {
		return
	}
	if !h.m.budget.Take() {
		h.m.over.Add(1)
		return
	}
	h.m.hedges.Add(1)
	h.made = true
	h.r = attempt(ctx, end, h.m, h.c, true)
	if h.r.verdict.Outcome == balance.Succeeded && h.answered.CompareAndSwap(false, true) {
		h.won = true
		h.endFirst()
	}
}
