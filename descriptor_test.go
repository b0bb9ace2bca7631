package eddy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// descriptorLog is a DescriptorHandler that notes its calls.
type descriptorLog struct {
	ready []Readiness
	ended []error
	on    func(Readiness)
	onEnd func()
}

func (d *descriptorLog) HandleReady(r Readiness) {
	d.ready = append(d.ready, r)
	if d.on != nil {
		d.on(r)
	}
}

func (d *descriptorLog) HandleUnregistered(err error) {
	d.ended = append(d.ended, err)
	if d.onEnd != nil {
		d.onEnd()
	}
}

// register gives l a custom descriptor, as Loop.Register does for a caller on the loop.
func (st *stage) register(l *loop, fd int, in Readiness, h DescriptorHandler) *Registration {
	st.t.Helper()
	st.socks[fd] = &actor{fd: fd}
	l.Vitals.Goroutine.Store(goroutineID())
	r, err := l.handle.Register(fd, in, h)
	if err != nil {
		st.t.Fatal(err)
	}
	return r
}

// TestDescriptor: readiness comes for what was asked, Modify and Close take effect before the next call, and the end is
// told once.
func TestDescriptor(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	var d descriptorLog
	r := st.register(l, 900, ReadyRead, &d)
	a := st.socks[900]
	a.room = 1
	l.Iterate()
	a.send("x")
	l.Iterate()
	l.Iterate()
	if !slices.Equal(d.ready, []Readiness{ReadyRead, ReadyRead}) {
		t.Errorf("asked for reads, told %v", d.ready)
	}
	step := func(in Readiness, want ...Readiness) {
		t.Helper()
		d.ready = nil
		if err := r.Modify(in); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		d.ready = nil
		l.Iterate()
		if !slices.Equal(d.ready, want) {
			t.Errorf("asked for %d, told %v", in, d.ready)
		}
	}
	step(ReadyWrite, ReadyWrite)
	step(ReadyRead|ReadyWrite, ReadyRead|ReadyWrite)
	step(0)
	step(ReadyRead, ReadyRead)
	if err := r.Modify(8); err == nil {
		t.Error("an unknown interest was accepted")
	}
	d.ready = nil
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.Iterate()
	}
	if len(d.ready) != 0 || !slices.Equal(d.ended, []error{nil}) || a.closed != 0 {
		t.Errorf("after Close: ready %v, ended %v, the descriptor was closed %d times", d.ready, d.ended, a.closed)
	}
	if r.Close() != ErrClosed || r.Modify(ReadyRead) != ErrClosed {
		t.Error("a closed registration takes orders")
	}
	if _, ok := st.nextPoller.regs[900]; ok {
		t.Error("the descriptor stayed in the poller")
	}
}

// TestDescriptorFails: a hang-up and a failure are ReadyError, whatever was asked for.
func TestDescriptorFails(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	var d descriptorLog
	r := st.register(l, 900, ReadyRead, &d)
	r.ready(sys.Failed)
	r.ready(sys.Hangup | sys.Readable | sys.Writable)
	r.ready(sys.Hangup | sys.Failed)
	if want := []Readiness{ReadyError, ReadyError | ReadyRead, ReadyError}; !slices.Equal(d.ready, want) {
		t.Errorf("told %v, want %v", d.ready, want)
	}
}

// TestDescriptorClosesInItsHandler: after Close on the loop HandleReady is not called again, also for an event that was
// reported already.
func TestDescriptorClosesInItsHandler(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	var first, second descriptorLog
	var regs []*Registration
	closeAll := func(Readiness) {
		for _, r := range regs {
			_ = r.Close() // one of them a second time
		}
	}
	first.on, second.on = closeAll, closeAll
	for fd, d := range map[int]*descriptorLog{900: &first, 901: &second} {
		regs = append(regs, st.register(l, fd, ReadyRead, d))
		st.socks[fd].send("x")
	}
	for range 3 {
		l.Iterate()
	}
	if n := len(first.ready) + len(second.ready); n != 1 || len(first.ended) != 1 || len(second.ended) != 1 {
		t.Errorf("%d calls, ends %v and %v", n, first.ended, second.ended)
	}
}

// TestEventOfAnEndedDescriptor: readiness that was reported before a registration ended is not taken for that of another
// one that was made meanwhile.
func TestEventOfAnEndedDescriptor(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	var first, second descriptorLog
	r := st.register(l, 900, ReadyRead, &first)
	l.Iterate()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.handle.Post(func() { st.register(l, 901, ReadyRead, &second) }); err != nil {
		t.Fatal(err)
	}
	st.socks[900].send("x")
	for range 3 {
		l.Iterate()
	}
	if len(first.ready) != 0 || len(second.ready) != 0 {
		t.Errorf("told %v and %v, of which only the first was ready before it ended", first.ready, second.ready)
	}
}

// TestRegisterRefused: what cannot be registered is refused with an error that says why, and the handler hears nothing.
func TestRegisterRefused(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	l.Vitals.Goroutine.Store(goroutineID())
	var d descriptorLog
	for _, in := range []Readiness{0, 4, 255} {
		if r, err := l.handle.Register(900, in, &d); r != nil || err == nil || !strings.Contains(err.Error(), "readiness") {
			t.Errorf("Register with readiness %d = %v, %v", in, r, err)
		}
	}
	if _, err := l.handle.Register(900, ReadyRead, nil); err == nil {
		t.Error("a nil handler was accepted")
	}
	cause := errors.New("the poller says no")
	st.addErrs = map[int]error{900: cause}
	r, err := l.handle.Register(900, ReadyRead, &d)
	le, ok := errors.AsType[*LoopError](err)
	if r != nil || !ok || le.Op != "watch descriptor 900" || le.Loop != "worker-0" || !errors.Is(err, cause) {
		t.Errorf("Register = %v, %v", r, err)
	}
	st.addErrs = nil
	l.Stopping = true
	if r, err := l.handle.Register(900, ReadyRead, &d); r != nil || err != ErrClosed {
		t.Errorf("Register on a loop that stops = %v, %v", r, err)
	}
	if len(d.ended) != 0 {
		t.Errorf("the handler was told %v", d.ended)
	}
}

// TestDescriptorEndsItself: a panic in HandleReady ends the registration, one in HandleUnregistered is contained, and a
// Modify that the poller refuses ends it as well.
func TestDescriptorEndsItself(t *testing.T) {
	st, l, log := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	panics := &descriptorLog{on: func(Readiness) { panic("no good") }, onEnd: func() { panic("no better") }}
	st.register(l, 900, ReadyRead, panics)
	st.socks[900].send("x")
	var refused descriptorLog
	r := st.register(l, 901, ReadyRead, &refused)
	st.modifyErr = errors.New("the poller says no")
	if err := r.Modify(ReadyWrite); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !l.Iterate() {
			t.Fatal("the loop ended")
		}
	}
	var pe *PanicError
	if len(panics.ready) != 1 || len(panics.ended) != 1 || !errors.As(panics.ended[0], &pe) || pe.Value != "no good" {
		t.Errorf("%d calls after a panic, told %v", len(panics.ready), panics.ended)
	}
	if l.Counters[meter.Panics] != 2 || !strings.Contains(log.String(), "no good") || !strings.Contains(log.String(), "no better") {
		t.Errorf("%d panics counted, logged %q", l.Counters[meter.Panics], log.String())
	}
	var le *LoopError
	if len(refused.ended) != 1 || !errors.As(refused.ended[0], &le) {
		t.Errorf("a refused Modify told %v", refused.ended)
	}
}

// TestDescriptorsEndWithTheLoop: a loop that ends tells every registration, once.
func TestDescriptorsEndWithTheLoop(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	var d, closed descriptorLog
	st.register(l, 900, ReadyRead, &d)
	if err := st.register(l, 901, ReadyRead, &closed).Close(); err != nil {
		t.Fatal(err)
	}
	l.Stopping = true
	l.Iterate()
	l.Teardown()
	if len(d.ended) != 1 || d.ended[0] != ErrClosed || !slices.Equal(closed.ended, []error{nil}) {
		t.Errorf("told %v and %v", d.ended, closed.ended)
	}
}

// TestDeregistrationNoise: that a descriptor is out of the poller already is worth a debug line only, anything else an
// error.
func TestDeregistrationNoise(t *testing.T) {
	_, l, log := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	for _, c := range []struct {
		err  error
		want string
	}{{nil, ""}, {fmt.Errorf("poll: remove: %w", syscall.ENOENT), "DEBUG"}, {errors.New("else"), "ERROR"}} {
		log.Reset()
		l.LogDeregister("it", c.err)
		if got := log.String(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v logged %q", c.err, got)
		}
	}
}
