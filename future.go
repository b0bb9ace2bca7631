package eddy

import (
	"context"
	"errors"
	"sync"

	"github.com/go-eddy/eddy/internal/reactor"
)

// futureState says how an operation stands.
type futureState uint8

// The states of a Future. The first state after futurePending is final.
const (
	futurePending futureState = iota
	futureSucceeded
	futureFailed
	futureCanceled
	futureStates
)

var futureStateNames = [futureStates]string{"pending", "succeeded", "failed", "cancelled"}

// String returns the state's name.
func (s futureState) String() string {
	if s >= futureStates {
		return "unknown"
	}
	return futureStateNames[s]
}

// ErrCanceled is the Err of a Future after Cancel.
var ErrCanceled = errors.New("eddy: the operation was cancelled")

// Future is the outcome of an operation that goes on elsewhere: see Conn.WriteFuture, Conn.CloseFuture, Dialer.DialFuture and
// AllOf. A Future completes exactly once. All methods may be called from any goroutine, before and after the end of the
// connection and of its loop.
type Future struct {
	loop  *loop        // that runs the listeners; nil for an AllOf of nothing
	write *writeFuture // the write it belongs to, nil for other operations
	abort func()       // abandons an attempt to connect, nil for other operations

	mu        sync.Mutex
	state     futureState
	fixed     bool // can no longer be cancelled
	patient   bool // fails when all of its parts have ended, not with the first failure
	running   bool // a goroutine runs the listeners
	posted    bool // a taskFuture is queued
	parts     int  // parts that have not ended
	err       error
	conn      *Conn
	done      chan struct{}
	listeners []func(*Future)
	above     []*Future // the futures it is a part of
}

// Completed reports whether the operation has succeeded, failed or been cancelled.
func (f *Future) Completed() bool { return f.standing() != futurePending }

// standing returns how the operation stands.
func (f *Future) standing() futureState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Err returns why the operation failed: nil while it is pending (see Completed) and after success, ErrCanceled after
// Cancel.
func (f *Future) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == futurePending {
		return nil
	}
	return f.err
}

// Conn returns the connection that the operation belongs to. A dial has none until it has succeeded, an AllOf never has one.
func (f *Future) Conn() *Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn
}

// Done returns a channel that is closed when the operation has completed. The channel is made by the first call.
func (f *Future) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = make(chan struct{})
		if f.state != futurePending {
			close(f.done)
		}
	}
	return f.done
}

// Wait blocks until the operation has completed and returns its Err, or until ctx ends and returns ctx's error. On a loop of
// any group Wait does not block: it returns ErrOnLoop for an operation that is still pending. Use OnDone there.
func (f *Future) Wait(ctx context.Context) error {
	if f.standing() != futurePending {
		return f.Err()
	}
	if reactor.OnLoop() {
		return ErrOnLoop
	}
	done := f.Done()
	select {
	case <-done:
	case <-ctx.Done():
		if f.standing() == futurePending {
			return ctx.Err()
		}
	}
	return f.Err()
}

// Cancel gives the operation up, if that is still possible, and reports whether it did. A Future that has completed or was
// cancelled before cannot be cancelled, nor can the end of a connection or an AllOf. A dial can be cancelled until it has
// succeeded.
//
// A write can be cancelled until its first byte is offered to the kernel. Exceptions: not while a WriteHandler works on it,
// and not after a WriteHandler on a pool has worked on it, or one that gathers or uses futures itself. When the loop comes to
// a cancelled write, the message is released and its bytes leave the counters (see Conn.QueuedBytes).
func (f *Future) Cancel() bool {
	if !f.settle(futureCanceled, ErrCanceled, nil) {
		return false
	}
	if f.abort != nil {
		f.abort()
	}
	return true
}

// fix makes f impossible to cancel from now on. It returns false when f has completed.
func (f *Future) fix() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fixed = true
	return f.state == futurePending
}

// unfix undoes fix while f waits for nothing but the end of the call that queued it and for its bytes.
func (f *Future) unfix() {
	f.mu.Lock()
	f.fixed = f.parts > 2
	f.mu.Unlock()
}

func (f *Future) pending() bool { return f.standing() == futurePending }

// settle completes f, and every future above whose last part thereby ends. on is the loop that the caller runs on, nil for
// other goroutines. It returns false when f has been completed before, or cannot be cancelled any more.
func (f *Future) settle(state futureState, err error, on *loop) bool {
	above, ok := f.complete(state, err, on)
	for i := 0; i < len(above); i++ { // not by recursion: parts of parts go as deep as the user likes
		p := above[i].of
		if state, err := p.lose(above[i].err); state != futurePending {
			more, _ := p.complete(state, err, on)
			above = append(above, more...)
		}
	}
	return ok
}

// lost is a part that has ended, for the future above it.
type lost struct {
	of  *Future
	err error
}

// partEnded takes one part off f. An error fails f: at once or, if f is patient, with its last part.
func (f *Future) partEnded(err error, on *loop) {
	if state, err := f.lose(err); state != futurePending {
		f.settle(state, err, on)
	}
}

// addPart lets f wait for one more part.
func (f *Future) addPart() {
	f.mu.Lock()
	f.parts++
	f.mu.Unlock()
}

// lose takes one part off f and returns the state that f completes with, futurePending when f does not complete.
func (f *Future) lose(err error) (futureState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts--
	if f.state != futurePending {
		return futurePending, nil
	}
	if f.err == nil {
		f.err = err // of the first part that failed
	}
	switch {
	case f.parts > 0 && (f.err == nil || f.patient):
		return futurePending, nil
	case f.err == nil:
		return futureSucceeded, nil
	}
	return futureFailed, f.err
}

// complete makes the only transition of f. It returns the futures above, which the caller must tell.
func (f *Future) complete(state futureState, err error, on *loop) (above []lost, ok bool) {
	f.mu.Lock()
	if f.state != futurePending || state == futureCanceled && f.fixed {
		f.mu.Unlock()
		return nil, false
	}
	f.state, f.err = state, err
	if f.done != nil {
		close(f.done)
	}
	for _, a := range f.above {
		above = append(above, lost{a, err})
	}
	f.above = nil
	call := len(f.listeners) > 0
	f.mu.Unlock()
	if w := f.write; w != nil {
		w.leave()
		call = call || state == futureCanceled // the loop takes out what is queued
	}
	if call {
		f.tell(on)
	}
	return above, true
}
