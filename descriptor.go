package eddy

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

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
