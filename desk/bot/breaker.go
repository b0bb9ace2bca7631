package bot

import (
	"sync"
	"time"
)

// BreakerState says whether a bot is asked.
type BreakerState string

// States of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // asked
	BreakerOpen     BreakerState = "open"      // not asked, because the bot has failed too often
	BreakerHalfOpen BreakerState = "half_open" // asked once, to see whether the bot is back
)

// Numbers of the breaker.
const (
	BreakerFailures = 5                // failures within BreakerWindow that open the breaker
	BreakerWindow   = 30 * time.Second //
	BreakerRest     = 30 * time.Second // from the opening until one turn is tried
)

// breaker keeps a bot that fails from being asked. Any goroutine may use it.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures []time.Time // the newest, at most BreakerFailures
	opened   time.Time   // zero = closed
	probing  bool        // the one turn of the half-open state is under way
	opens    uint64
}

// allow reports whether the bot may be asked. probe means that this turn finds out whether the bot is back.
func (b *breaker) allow() (ok, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state() {
	case BreakerClosed:
		return true, false
	case BreakerOpen:
		return false, false
	}
	if b.probing {
		return false, false
	}
	b.probing = true
	return true, true
}

// state returns the state now. b.mu is held.
func (b *breaker) state() BreakerState {
	switch {
	case b.opened.IsZero():
		return BreakerClosed
	case b.now().Sub(b.opened) < BreakerRest:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// State returns the state now. While the one try of a half-open breaker is under way, the bot is not asked any more.
func (b *breaker) State() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state()
}

// shut reports whether a turn that came now would be refused.
func (b *breaker) shut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state()
	return s == BreakerOpen || (s == BreakerHalfOpen && b.probing)
}

func (b *breaker) succeeded(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.opened, b.probing, b.failures = time.Time{}, false, nil
	}
}

// dropped ends an attempt that says nothing about the bot. If it was the try of the half-open state, there is another.
func (b *breaker) dropped(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
}

// failed reports whether this failure opened the breaker.
func (b *breaker) failed(probe bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if probe {
		b.opened, b.probing = now, false
		b.opens++
		return true
	}
	if !b.opened.IsZero() {
		return false // a turn that was under way when the breaker opened
	}
	for len(b.failures) > 0 && now.Sub(b.failures[0]) >= BreakerWindow {
		b.failures = b.failures[1:]
	}
	b.failures = append(b.failures, now)
	if len(b.failures) < BreakerFailures {
		return false
	}
	b.opened, b.failures = now, nil
	b.opens++
	return true
}
