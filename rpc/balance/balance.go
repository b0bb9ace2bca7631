// Package balance decides which instance of a service takes a call, and whether a call is made again. It has no goroutines and no sockets: clients tell
// it what they see, and the clock and the random numbers may be a test's.
//
// A Balancer picks. An instance that fails is ejected, tried again with a few calls, and comes back. A Budget bounds how many calls are made again, a
// Breaker ends calls to a service that only fails, and a Latency says when a call is late enough for a second attempt. The clients of package rpc use
// all of it by their options, and package httpbalance does so for HTTP.
package balance

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// Policy says how a Balancer picks.
type Policy uint8

const (
	// RoundRobin takes the instances in turn.
	RoundRobin Policy = iota
	// Weighted takes the instances in turn, each as often as its weight says, and not several times in a row.
	Weighted
	// LeastRequests takes the instance with the fewest calls in flight for its weight: of all, or of eight random ones where there are more than 32.
	LeastRequests
	// PeakEWMA takes the better of two instances by latency, calls in flight and weight: the one whose turn it is, unless a random one is twice as good. The
	// latency is an average that follows a higher one at once and a lower one within Options.Decay. Failures count as latency.
	PeakEWMA
	// Hash takes the same instance for the same key, as long as that one is not loaded more than Options.Bound allows; then the next one on the ring.
	// Calls without a key have a random one. Instances that come or go move only the keys that they get or had.
	Hash
	policies
)

// String returns the policy's name.
func (p Policy) String() string {
	if p >= policies {
		return fmt.Sprintf("policy %d", uint8(p))
	}
	return [policies]string{"round robin", "weighted", "least requests", "peak ewma", "hash"}[p]
}

// Outcome is how a call ended, as far as it says something about its instance.
type Outcome uint8

const (
	// Succeeded: the instance has answered; also with an error of the application.
	Succeeded Outcome = iota
	// Failed: the instance has not answered in time, has lost the connection, or has answered that it cannot.
	Failed
	// Refused: the instance has answered that it is busy.
	Refused
	// Unknown: nothing is known, because the caller has given the call up.
	Unknown
)

// The defaults of Options.
const (
	DefaultDecay = 10 * time.Second
	DefaultBound = 1.25
)

// Options say how a Balancer picks. The zero value takes the instances in turn and ejects none.
type Options struct {
	Policy Policy
	Zone   string        // whose instances are preferred, see discovery.Instance.Zone; empty = none
	Warmup time.Duration // in which an instance that has begun to serve gets from a tenth to all of its share; 0 = none
	Decay  time.Duration // of PeakEWMA; 0 = 10 s
	Bound  float64       // of Hash: calls in flight on an instance, in shares of the average; 0 = 1.25, at least 1

	// Eject takes instances out that fail. Its zero value ejects none.
	Eject Ejection

	Now  func() int64     // monotonic nanoseconds, not negative; nil = the time since New
	Wall func() time.Time // for discovery.Instance.Since; nil = time.Now
	Rand func() uint64    // nil = math/rand/v2
}

// complete validates the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Policy >= policies:
		return fmt.Errorf("balance: Options.Policy is %d: there is no such policy", o.Policy)
	case o.Warmup < 0, o.Decay < 0:
		return fmt.Errorf("balance: Options.Warmup is %v, Decay %v: they must not be negative", o.Warmup, o.Decay)
	case o.Bound != 0 && !(o.Bound >= 1 && o.Bound <= 1000):
		return fmt.Errorf("balance: Options.Bound is %v: it must be from 1 to 1000", o.Bound)
	}
	if err := o.Eject.complete(); err != nil {
		return err
	}
	o.Decay = cmp.Or(o.Decay, DefaultDecay)
	o.Bound = cmp.Or(o.Bound, DefaultBound)
	if o.Now == nil {
		o.Now = clock()
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	return nil
}

// clock returns a monotonic clock that begins now.
func clock() func() int64 {
	epoch := time.Now()
	return func() int64 { return int64(time.Since(epoch)) }
}

// Stats are the numbers of a Balancer and, in a client, of the attempts that it makes.
type Stats struct {
	Instances int // that are known
	Usable    int // of these, the ones that are picked: connected, healthy and not ejected
	Ejected   int // at this moment

	Ejections uint64 // instances taken out because they failed
	Spared    uint64 // instances that would have been taken out, had Ejection.MaxShare allowed it
	Spilled   uint64 // calls that left the own zone
	Fallbacks uint64 // picks that found no usable instance and took an ejected one

	Retries     uint64 // attempts after a failed one
	Hedges      uint64 // attempts beside one that is late
	HedgesWon   uint64 // of these, the ones whose answer came first
	OverBudget  uint64 // attempts not made because the budget was spent
	BrokenCalls uint64 // calls not made because the breaker of their service was open

	Resolves        uint64 // answers of the resolver that were applied
	ResolveFailures uint64 // its errors
	ResolveEmpty    uint64 // its answers without an instance, where some were known
	ResolveRefused  uint64 // its answers with too many instances, or one that does not parse
	ResolveHeld     uint64 // its answers that a later one replaced within a second
}
