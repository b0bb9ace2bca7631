package eddy

import (
	"fmt"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// Loop is a handle to one loop of a Group. The loop is a goroutine that runs the functions it is given one after the
// other, beside the connections it serves. Such functions must not block. A panic in one is contained and counted.
//
// All methods may be called from any goroutine. Methods that take work return ErrClosed after the loop has ended and
// ErrSaturated when its task queue is full.
type Loop struct{ l *loop }

// Loop returns the loop that owns the connection.
func (c *Conn) Loop() *Loop { return &c.loop.handle }

// Name returns the loop's name, which is also the value of the pprof label eddy_loop on its goroutine.
func (o *Loop) Name() string { return o.l.Name }

// Now returns the time by the loop's clock, which timers and deadlines follow. It reads the clock, which Context.Now does
// not. Any goroutine, also after the loop has ended.
func (o *Loop) Now() time.Time { return o.l.Clock.Wall() }

// In reports whether the caller runs on this loop, at a cost of about a microsecond.
func (o *Loop) In() bool { return o.l.In() }

// Post runs f on the loop. If it returns nil, f runs exactly once.
func (o *Loop) Post(f func()) error {
	if f == nil {
		return errNilFunc("Post")
	}
	return o.l.Tasks.Push(task{kind: taskFunc, msg: f})
}

// Tail runs f once, after the current iteration of the loop, when everything that is ready by now was handled and
// answered. A sleeping loop begins an iteration for it at once. Functions that f posts run in a later one.
func (o *Loop) Tail(f func()) error {
	if f == nil {
		return errNilFunc("Tail")
	}
	return o.l.Tasks.PushTail(f)
}

// WakeLater wakes the workers of p for what Pool.Enqueue or Strand.Enqueue has queued there: once for all that one iteration
// of the loop brings, at its end or after 32 calls. Loop only.
func (o *Loop) WakeLater(p *executor.Pool) { o.l.wakeLater(p) }

// After runs f on the loop after d. If needed, the loop wakes up for it. Timers end with the loop.
func (o *Loop) After(d time.Duration, f func()) (*Timer, error) {
	return o.schedule("After", d, 0, false, f)
}

// Every runs f on the loop at a fixed rate, first after d and then every d. Runs that a busy loop has missed are skipped
// and do not pile up. Later runs keep to the grid that began with the call. A panic in f does not end the timer. At least
// 1 ms.
func (o *Loop) Every(d time.Duration, f func()) (*Timer, error) {
	return o.schedule("Every", d, d, false, f)
}

// EveryAfter runs f on the loop with a fixed delay: first after d, and then each time d after the end of a run. A panic
// in f does not end the timer. At least 1 ms.
func (o *Loop) EveryAfter(d time.Duration, f func()) (*Timer, error) {
	return o.schedule("EveryAfter", d, d, true, f)
}

// minPeriod is the shortest period, so that a periodic timer does not occupy the loop.
const minPeriod = time.Millisecond

func (o *Loop) schedule(call string, d, period time.Duration, drift bool, f func()) (*Timer, error) {
	t, err := o.l.NewTimer(call, d, f)
	if err != nil {
		return nil, err
	}
	if call != "After" && period < minPeriod {
		return nil, fmt.Errorf("eddy: %s(%v): the period must be at least %v", call, period, minPeriod)
	}
	t.Repeat(period, drift)
	if err := o.l.Tasks.PushTimed(task{kind: taskTimer, msg: t}, t.When()); err != nil {
		return nil, err
	}
	return (*Timer)(t), nil
}

func errNilFunc(call string) error { return fmt.Errorf("eddy: %s: the function must not be nil", call) }
