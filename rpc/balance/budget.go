package balance

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// The defaults of a Budget.
const (
	DefaultBudget  = 0.1
	DefaultReserve = 10
)

// whole is a call in the units of a Budget.
const whole = 1 << 20

// Budget bounds the attempts beyond the first that calls may make, so that they do not bring down a service that is in trouble. Each call pays a share of
// an attempt into it, and each further attempt takes a whole one. All methods may be called by any goroutine.
type Budget struct {
	left       atomic.Int64
	share, cap int64
}

// NewBudget returns a Budget of a share of the calls; 0 = 0.1, so that a server sees 1.1 times the calls at most. The budget holds reserve attempts at
// most, and has them at the beginning; 0 = 10. The error says that an argument makes no sense.
func NewBudget(share float64, reserve int) (*Budget, error) {
	share, reserve = cmp.Or(share, DefaultBudget), cmp.Or(reserve, DefaultReserve)
	if !(share > 0 && share <= 1) || reserve < 1 || reserve > 1<<20 {
		return nil, fmt.Errorf("balance: Attempts.Budget is %v, Reserve %d: they must be from 0 to 1, and from 0 to %d", share, reserve, 1<<20)
	}
	b := &Budget{share: int64(share * whole), cap: int64(reserve) * whole}
	b.left.Store(b.cap)
	return b, nil
}

// Call pays for a call.
func (b *Budget) Call() {
	if b.left.Load() >= b.cap { // the usual case costs no write
		return
	}
	if over := b.left.Add(b.share) - b.cap; over > 0 {
		b.left.Add(-over)
	}
}

// Take reports whether a further attempt may be made, and pays for it.
func (b *Budget) Take() bool {
	for {
		left := b.left.Load()
		if left < whole {
			return false
		}
		if b.left.CompareAndSwap(left, left-whole) {
			return true
		}
	}
}

// The cells of a Latency: powers of two from 16 µs on, each in eight steps.
const (
	latencyFrom  = 14
	latencySteps = 8
	latencyCells = 26 * latencySteps
	latencyKept  = 4096 // calls after which older ones count half
)

// Latency knows how long calls take. All methods may be called by any goroutine.
type Latency struct {
	cells [latencyCells]atomic.Uint32
	calls atomic.Int64
}

func latencyCell(d time.Duration) int {
	f := math.Log2(float64(max(d, 1))) - latencyFrom
	return max(0, min(int(f*latencySteps), latencyCells-1))
}

// Add notes that a call has taken d.
func (l *Latency) Add(d time.Duration) {
	l.cells[latencyCell(d)].Add(1)
	if l.calls.Add(1) == latencyKept {
		var left int64
		for i := range l.cells {
			n := l.cells[i].Load() / 2
			l.cells[i].Store(n)
			left += int64(n)
		}
		l.calls.Store(left)
	}
}

// At returns the time within which a share of the calls ends, such as 0.95, to an eighth of it; ok is false while less than 100 calls are known.
func (l *Latency) At(share float64) (d time.Duration, ok bool) {
	calls := l.calls.Load()
	if calls < 100 {
		return 0, false
	}
	want := int64(math.Ceil(share * float64(calls)))
	for i := range l.cells {
		if want -= int64(l.cells[i].Load()); want <= 0 {
			return time.Duration(math.Exp2(latencyFrom + float64(i+1)/latencySteps)), true
		}
	}
	return time.Duration(math.Exp2(latencyFrom + latencyCells/latencySteps)), true
}

// Attempts say how often and when a call is made again. The zero value makes each call once.
//
// A call that was certainly not executed, because its server is busy, may be made again at another one. Any other call is made again only if it is
// idempotent, as its caller says.
type Attempts struct {
	Max     int           // attempts at a call, the first one included; 0 and 1 = one, at most 10
	Pause   time.Duration // before the second attempt, twice as long before each further one, half of it by chance; 0 = 10 ms. A server's advice counts too
	Budget  float64       // attempts beyond the first, in shares of the calls; 0 = 0.1
	Reserve int           // attempts that the budget has at the beginning, and at most; 0 = 10

	// Hedge makes a second attempt at an idempotent call that has no answer after so long; the first answer counts. HedgeAt does so when the call takes
	// longer than this share of the calls, such as 0.95; before 100 calls are known Hedge counts. Both at 0 make none.
	Hedge   time.Duration
	HedgeAt float64

	// Breaker ends calls at once while those to their service fail. Its zero value ends none.
	Breaker Trip
}

// DefaultPause is the default of Attempts.Pause.
const DefaultPause = 10 * time.Millisecond

// Complete validates the settings and fills in the defaults.
func (a *Attempts) Complete() error {
	switch {
	case a.Max < 0 || a.Max > 10:
		return fmt.Errorf("balance: Attempts.Max is %d: it must be from 0 to 10", a.Max)
	case a.Pause < 0, a.Hedge < 0:
		return fmt.Errorf("balance: Attempts.Pause is %v, Hedge %v: they must not be negative", a.Pause, a.Hedge)
	case !(a.HedgeAt >= 0 && a.HedgeAt < 1):
		return fmt.Errorf("balance: Attempts.HedgeAt is %v: it must be from 0 to less than 1", a.HedgeAt)
	}
	a.Max, a.Pause = max(a.Max, 1), cmp.Or(a.Pause, DefaultPause)
	return a.Breaker.complete("Attempts.Breaker")
}

// On reports whether there is more than one attempt, or a breaker.
func (a *Attempts) On() bool { return a.Max > 1 || a.Hedge > 0 || a.HedgeAt > 0 || a.Breaker.on() }
