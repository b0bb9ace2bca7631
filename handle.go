package eddy

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
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

// Behind returns how long ago the loop noticed what it is serving: the time that input had to wait while the loop served
// others. It reads the clock. Loop only.
func (o *Loop) Behind() time.Duration { return time.Duration(o.l.Clock.Now() - o.l.Now) }

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

// Timer is a function that runs on a loop at a later time, once or periodically. Context.After and Loop.After make one.
// Timers of a loop run in the order of their deadlines; equal deadlines run in the order of the calls that made them.
type Timer reactor.Timer

// Stop prevents the timer from running (again) and reports whether it did. False means that a one-shot timer has run or
// is running, or that the timer was stopped before. Stop does not wait for a run that has begun. Any goroutine. An armed
// timer's function is released at once, the timer itself some time later.
func (t *Timer) Stop() bool { return (*reactor.Timer)(t).Stop() }

// after schedules f on the connection's loop. Loop only.
func (c *Conn) after(d time.Duration, f func()) (*Timer, error) {
	if c.phase == PhaseClosed {
		return nil, c.closedError()
	}
	t, err := c.loop.After(c.extend(), d, f)
	return (*Timer)(t), err
}

// TimerList makes the connection an owner of timers.
func (x *connExt) TimerList() *list.List[reactor.Timer] { return &x.timers }

// stopTimers ends the timers of a closed connection: a timer that is far off must not keep it in memory.
func (c *Conn) stopTimers() {
	if x := c.ext.Load(); x != nil {
		reactor.StopAll(&x.timers)
	}
}

// Call runs a function that belongs to the owner of a timer, which is a connection, or to none.
func (l *loop) Call(o reactor.Owner, f func()) {
	var c *Conn
	if o != nil {
		c = o.(*connExt).conn
	}
	defer l.contain(c)
	l.serving.Store(c)
	f()
	if c != nil {
		l.afterActivity(c)
	}
}

// Signal runs a function on a connection's loop each time it is raised. Use it to tell the loop that work elsewhere has
// ended, which must not be lost and for which a worker must not wait. Store the data for the function before calling
// Raise.
//
// Raise is never refused for want of room, because signals bypass the bound of the loop's queue. So use a fixed number of
// signals per connection.
type Signal struct {
	conn   *Conn
	run    func()
	raised atomic.Bool
}

// Init makes s a signal of c that runs f. Call it once, before the first Raise.
func (s *Signal) Init(c *Conn, f func()) { s.conn, s.run = c, f }

// Raise runs the function on the loop, in order with tasks and writes from other goroutines. If s is already raised and
// its run has not begun, that run serves both. The function also runs when the connection has ended. Any goroutine; Raise
// never blocks. Errors: ErrClosed when the loop has ended; the function does not run then.
func (s *Signal) Raise() error {
	if s.raised.Swap(true) {
		return nil
	}
	err := s.conn.loop.Tasks.PushLast(task{kind: taskSignal, conn: s.conn, msg: s})
	if err != nil {
		s.raised.Store(false)
	}
	return err
}

// deliver runs the signal's task. A Raise from here on queues another one. Messages that were reserved elsewhere are
// counted here for the first time.
func (s *Signal) deliver() {
	s.raised.Store(false)
	s.run()
	if c := s.conn; c.phase < PhaseClosing {
		c.writeSettled()
	} else {
		c.account()
	}
}

// Readiness says for which conditions a custom descriptor is watched, or which it meets. A condition is reported as long as
// it holds.
type Readiness uint8

// The conditions, to be combined with |. Ask for ReadyRead and ReadyWrite. ReadyError is reported without being asked for;
// the next read or write tells more.
const (
	ReadyRead  = Readiness(sys.Readable)
	ReadyWrite = Readiness(sys.Writable)
	ReadyError = Readiness(sys.Hangup) // a hang-up or a failure
)

// DescriptorHandler serves a descriptor that is no connection: a pipe, an eventfd, a raw socket. Its methods run on the
// loop and must not block.
type DescriptorHandler interface {
	// HandleReady is called when the descriptor meets a condition it is watched for. After a panic in it the
	// registration ends.
	HandleReady(ready Readiness)
	// HandleUnregistered is called exactly once, when the registration has ended: with nil after Registration.Close,
	// with ErrClosed when the loop ends, else with what went wrong. The descriptor is the application's: this is the
	// moment to close it.
	HandleUnregistered(err error)
}

// Registration is a custom descriptor in the poller of a loop. See Loop.Register.
type Registration struct {
	loop    *loop
	fd      int
	handler DescriptorHandler

	// Owned by the loop.
	token uint64
	in    sys.Interest // as the poller knows it
	ended bool

	wanted atomic.Int32 // the interest asked for
	queued atomic.Bool  // a taskRegistration is on its way
	closed atomic.Bool
}

// Register watches a non-blocking descriptor on the loop, and waits until the loop does so. On any other loop, which must
// not wait, Register returns ErrOnLoop. in is ReadyRead, ReadyWrite or both. An error of the poller comes as *LoopError, and h is not
// called then. With the poller "net" there are no descriptors to watch.
func (o *Loop) Register(fd int, in Readiness, h DescriptorHandler) (*Registration, error) {
	if in == 0 || in > ReadyRead|ReadyWrite {
		return nil, fmt.Errorf("eddy: Register: the readiness is %d: it must be ReadyRead, ReadyWrite or both", in)
	}
	if h == nil {
		return nil, errors.New("eddy: Register: the handler must not be nil")
	}
	l := o.l
	r := &Registration{loop: l, fd: fd, handler: h}
	r.wanted.Store(int32(in))
	if o.In() {
		return orNone(r, r.register(sys.Interest(in)))
	}
	if reactor.OnLoop() {
		return nil, ErrOnLoop
	}
	var err error = ErrClosed
	l.do(func() { err = r.register(sys.Interest(in)) })
	return orNone(r, err)
}

func orNone(r *Registration, err error) (*Registration, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// register adds the descriptor to the poller. On the loop.
func (r *Registration) register(in sys.Interest) error {
	l := r.loop
	if l.Stopping {
		return ErrClosed
	}
	token, err := l.Watch(&reactor.Descriptor{FD: r.fd, In: in, Ready: r.ready, Lost: r.lost})
	if err != nil {
		return r.failed(err)
	}
	r.token, r.in = token, in
	return nil
}

// failed is the error of a descriptor that the loop cannot watch, or not any longer.
func (r *Registration) failed(err error) error {
	return &LoopError{Loop: r.loop.Name, Op: fmt.Sprintf("watch descriptor %d", r.fd), Err: err}
}

// Modify changes what the descriptor is watched for; 0 pauses it. Any goroutine. On the loop the change takes effect before
// the handler is called again, elsewhere soon. If the poller refuses, the registration ends with a *LoopError. After the
// end Modify returns ErrClosed.
func (r *Registration) Modify(in Readiness) error {
	if in > ReadyRead|ReadyWrite {
		return fmt.Errorf("eddy: Registration.Modify: the readiness is %d: it must be made of ReadyRead and ReadyWrite", in)
	}
	if r.closed.Load() {
		return ErrClosed
	}
	r.wanted.Store(int32(in))
	return r.submit()
}

// Close ends the registration; HandleUnregistered follows on the loop. Any goroutine. After a Close on the loop HandleReady
// is not called any more; elsewhere a call may be under way. After the end Close returns ErrClosed.
func (r *Registration) Close() error {
	if r.closed.Swap(true) {
		return ErrClosed
	}
	return r.submit()
}

// submit makes the loop look at what was asked for; at most one such task is queued.
func (r *Registration) submit() error {
	if !r.queued.CompareAndSwap(false, true) {
		return nil
	}
	return r.loop.Tasks.PushControl(task{kind: taskRegistration, msg: r})
}

// carryOut applies what Modify and Close asked for.
func (r *Registration) carryOut() {
	r.queued.Store(false)
	switch in := sys.Interest(r.wanted.Load()); {
	case r.ended:
	case r.closed.Load():
		r.end(nil)
	case in != r.in:
		if err := r.loop.Rewatch(r.token, in); err != nil {
			r.end(r.failed(err))
			return
		}
		r.in = in
	}
}

// ready handles the poller's report. A change that was asked for in this iteration already counts.
func (r *Registration) ready(ready sys.Ready) {
	const failed = sys.Hangup | sys.Failed
	ready &= sys.Ready(r.wanted.Load()) | failed // the bits of interest and readiness are the same
	if ready == 0 || r.ended || r.closed.Load() {
		return
	}
	l := r.loop
	defer r.contain()
	l.serving.Store(nil)
	l.inHand.descriptor = r
	if ready&sys.Failed != 0 {
		ready = ready&^sys.Failed | sys.Hangup
	}
	r.handler.HandleReady(Readiness(ready))
	l.inHand.descriptor = nil
}

// lost ends the registration when the loop ends, or when a new poller does not take the descriptor over from the old one.
func (r *Registration) lost(err error) {
	if err != ErrClosed { //nolint:errorlint // our own sentinel, passed bare
		err = r.failed(err)
	}
	r.end(err)
}

// contain ends a registration whose handler panicked, because it would panic again and again.
func (r *Registration) contain() {
	v := recover()
	if v == nil {
		return
	}
	l := r.loop
	l.inHand.descriptor = nil
	stack := debug.Stack()
	l.Counters[meter.Panics]++
	l.logPanic(typeName(r.handler), v, stack)
	r.end(&PanicError{Value: v, Stack: stack})
}

// end takes the descriptor out of the poller and tells the handler, once.
func (r *Registration) end(err error) {
	if r.ended {
		return
	}
	r.ended = true
	r.closed.Store(true)
	l := r.loop
	l.LogDeregister("a custom descriptor", l.Unwatch(r.token))
	l.Call(nil, func() { r.handler.HandleUnregistered(err) })
}
