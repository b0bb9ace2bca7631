package auth

import (
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Throttle slows down guessing, and keeps nobody out whose device is known. Any goroutine may call all methods.
//
// Failures count for the pair of account and address: after a few free ones the next attempt must wait, twice as long
// each time up to a minute. An account and an address have a larger allowance besides, which comes back with time. An
// attempt from a known device counts for that device alone.
type Throttle struct {
	now       func() time.Time
	accounts  *Buckets
	addresses *Buckets

	shared *Shared // nil = failures count for this server alone

	mu   sync.Mutex
	keys map[string]*attempts
	told map[string]float64 // failures that the others are not told yet, by key
}

// Attempt says who wants to prove a password.
type Attempt struct {
	Account string // as typed; it need not exist
	Address string
	Device  string // a device on which the account has logged in before, or its login; "" if there is none
}

type attempts struct {
	failures int
	last     time.Time
}

const (
	freeAttempts  = 5 // of one account from one address, or of one device
	firstDelay    = time.Second
	longestDelay  = time.Minute
	forgetAfter   = 15 * time.Minute
	maxThrottled  = 20_000
	maxAccountKey = 256 // bytes; no account has a longer login

	perAccount   = 100 // attempts at once from all unknown devices
	accountEvery = 20 * time.Second
	perAddress   = 20 // attempts at once on all accounts
	addressEvery = 30 * time.Second
)

// NewThrottle returns a throttle that reads the time from now. What has failed, and the allowances of accounts and addresses,
// count for all servers that share.
func NewThrottle(now func() time.Time, shared *Shared) *Throttle {
	t := &Throttle{
		now: now, shared: shared, keys: make(map[string]*attempts), told: make(map[string]float64),
		accounts:  shared.Count("logins of an account", NewBuckets(1/accountEvery.Seconds(), perAccount, maxThrottled)),
		addresses: shared.Count("logins of an address", NewBuckets(1/addressEvery.Seconds(), perAddress, maxThrottled)),
	}
	if shared != nil {
		shared.join("failed logins", t)
	}
	return t
}

// key names the failures that delay this attempt.
func (a *Attempt) key() string {
	if a.Device != "" {
		return "device " + a.Device
	}
	return "address " + a.Address + " " + a.account()
}

func (a *Attempt) account() string { return a.Account[:min(len(a.Account), maxAccountKey)] }

// Begin asks whether an attempt may be made now. If not, it returns how long to wait. A granted attempt counts as
// failed until Success is called, so that parallel guesses do not slip through.
func (t *Throttle) Begin(a Attempt) (wait time.Duration) {
	now := t.now()
	if wait := t.takeShared(&a, now); wait > 0 {
		return wait
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.shared.id(a.key())
	e := t.entry(key, now)
	if wait := e.wait(now); wait > 0 {
		t.returnShared(&a)
		return wait
	}
	e.failures++
	e.last = now
	t.tell(key, 1)
	return 0
}

// Success forgives the failures before it, and takes this attempt back from the allowances.
func (t *Throttle) Success(a Attempt) {
	t.returnShared(&a)
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.shared.id(a.key())
	if e := t.keys[key]; e != nil {
		t.tell(key, -float64(e.failures))
		delete(t.keys, key)
	}
}

// Cancel takes back an attempt that was not decided.
func (t *Throttle) Cancel(a Attempt) {
	t.returnShared(&a)
	t.mu.Lock()
	defer t.mu.Unlock()
	key := t.shared.id(a.key())
	if e := t.keys[key]; e != nil && e.failures > 0 {
		e.failures--
		t.tell(key, -1)
	}
}

// tell notes what the others are to be told. Who has failed twice may be trying them all. t.mu is held.
func (t *Throttle) tell(key string, n float64) {
	if t.shared == nil {
		return
	}
	if _, known := t.told[key]; !known && len(t.told) >= maxThrottled {
		return
	}
	t.told[key] += n
	if t.told[key] > 1 {
		t.shared.hurry()
	}
}

// rows implements counter.
func (t *Throttle) rows(n int, _ time.Time) []store.Spent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return drain(t.told, n)
}

// hear implements counter.
func (t *Throttle) hear(told *store.Spent, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entry(told.Key, now)
	e.failures = max(0, e.failures+int(told.N))
	if told.N > 0 {
		e.last = now
	}
}

// takeShared takes an attempt from the allowances of its address and account, or returns how long until there is one.
func (t *Throttle) takeShared(a *Attempt, now time.Time) (wait time.Duration) {
	if a.Device != "" {
		return 0
	}
	if wait := t.addresses.Take(a.Address, now); wait > 0 {
		return wait
	}
	wait = t.accounts.Take(a.account(), now)
	if wait > 0 {
		t.addresses.Return(a.Address)
	}
	return wait
}

func (t *Throttle) returnShared(a *Attempt) {
	if a.Device == "" {
		t.addresses.Return(a.Address)
		t.accounts.Return(a.account())
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

// sweep drops old entries. If there are still too many it drops any, until a tenth is free. The map stays bounded, a
// flood pays for few sweeps, and a full map locks nobody out. t.mu is held.
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

func (a *attempts) wait(now time.Time) time.Duration {
	over := a.failures - freeAttempts
	if over < 0 {
		return 0
	}
	delay := longestDelay
	if over < 6 {
		delay = min(firstDelay<<over, longestDelay)
	}
	return max(0, a.last.Add(delay).Sub(now))
}
