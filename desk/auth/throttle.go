package auth

import (
	"sync"
	"time"
)

// Throttle slows down guessing. Each failure counts for an account and for an address. After a few free ones the next
// attempt must wait, twice as long each time up to a minute. Any goroutine may call all methods.
type Throttle struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]*attempts
}

type attempts struct {
	failures int
	last     time.Time
}

const (
	freePerAccount = 5
	freePerAddress = 20
	firstDelay     = time.Second
	longestDelay   = time.Minute
	forgetAfter    = 15 * time.Minute
	maxThrottled   = 20_000
)

// NewThrottle returns a throttle that reads the time from now.
func NewThrottle(now func() time.Time) *Throttle {
	return &Throttle{now: now, keys: make(map[string]*attempts)}
}

// Begin asks whether an attempt may be made now. If not, it returns how long to wait. A granted attempt counts as
// failed until Success is called, so that parallel guesses do not slip through.
func (t *Throttle) Begin(account, address string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	a, b := t.entry("account "+account, now), t.entry("address "+address, now)
	wait = max(a.wait(freePerAccount, now), b.wait(freePerAddress, now))
	if wait > 0 {
		return wait
	}
	for _, e := range []*attempts{a, b} {
		e.failures++
		e.last = now
	}
	return 0
}

// Success forgives the account its failures, and the address this attempt.
func (t *Throttle) Success(account, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, "account "+account)
	if e := t.keys["address "+address]; e != nil && e.failures > 0 {
		e.failures--
	}
}

// Cancel takes back an attempt that was not decided.
func (t *Throttle) Cancel(account, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range []string{"account " + account, "address " + address} {
		if e := t.keys[key]; e != nil && e.failures > 0 {
			e.failures--
		}
	}
}

// entry returns the attempts of a key, forgetting old ones. t.mu is held.
func (t *Throttle) entry(key string, now time.Time) *attempts {
	if e := t.keys[key]; e != nil {
		if now.Sub(e.last) > forgetAfter {
			e.failures = 0
		}
		return e
	}
	if len(t.keys) >= maxThrottled {
		t.sweep(now)
	}
	e := &attempts{last: now}
	t.keys[key] = e
	return e
}

// sweep drops old entries. If there are still too many it drops any, until a tenth is free. The map stays bounded and a
// flood pays for few sweeps. t.mu is held.
func (t *Throttle) sweep(now time.Time) {
	for k, e := range t.keys {
		if now.Sub(e.last) > forgetAfter {
			delete(t.keys, k)
		}
	}
	for k := range t.keys {
		if len(t.keys) < maxThrottled*9/10 {
			return
		}
		delete(t.keys, k)
	}
}

func (a *attempts) wait(free int, now time.Time) time.Duration {
	over := a.failures - free
	if over < 0 {
		return 0
	}
	delay := longestDelay
	if over < 6 {
		delay = min(firstDelay<<over, longestDelay)
	}
	return max(0, a.last.Add(delay).Sub(now))
}
