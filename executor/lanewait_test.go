package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-eddy/eddy/ring"
)

// slowDisk is a spill queue whose disk takes what the test lets it take.
type slowDisk struct {
	mu      sync.Mutex
	buffer  int
	waiting [][]byte
	log     [][]byte
	fault   error
	hasty   bool // Send finds the buffer full once more, when there is room already
	ready   chan struct{}
}

func newSlowDisk(buffer int) *slowDisk {
	return &slowDisk{buffer: buffer, ready: make(chan struct{}, 1)}
}

func (d *slowDisk) Send(msg []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.waiting) >= d.buffer && d.fault != nil:
		return fmt.Errorf("%w: %w", ring.ErrFull, d.fault)
	case len(d.waiting) >= d.buffer:
		return ring.ErrBehind
	case d.hasty:
		d.hasty = false
		return ring.ErrBehind
	}
	d.waiting = append(d.waiting, msg)
	return nil
}

func (d *slowDisk) TryRecv() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.log) == 0 {
		return nil, nil
	}
	msg := d.log[0]
	d.log = d.log[1:]
	return msg, nil
}

func (d *slowDisk) Behind() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault == nil && len(d.waiting) > d.buffer/2
}

func (d *slowDisk) Ready() <-chan struct{} { return d.ready }

func (d *slowDisk) Stats() ring.SpillStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ring.SpillStats{Waiting: len(d.waiting), Disk: len(d.log), Fault: d.fault}
}

func (d *slowDisk) Close() error { return nil }

// write puts what waits, up to n, into the log.
func (d *slowDisk) write(n int) {
	d.mu.Lock()
	n = min(n, len(d.waiting))
	d.log = append(d.log, d.waiting[:n]...)
	d.waiting = d.waiting[n:]
	d.mu.Unlock()
	d.tell()
}

func (d *slowDisk) fail(err error) {
	d.mu.Lock()
	d.fault = err
	d.mu.Unlock()
	d.tell()
}

func (d *slowDisk) tell() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// patient is a producer that stops when it is told to wait, and the consumer on the same goroutine.
type patient struct {
	*desk
	disk         *slowDisk
	left         []int // not submitted yet
	waits, rooms int
	failed       error // of the last Submit that was refused
	refusals     int
	refuseWake   atomic.Int32 // how often Wake fails
}

func newPatient(t *testing.T, buffer int, run func(lane int, in *job, out *answer)) *patient {
	t.Helper()
	p := &patient{desk: &desk{t: t, woken: make(chan struct{}, 1)}, disk: newSlowDisk(buffer)}
	o := spilling(t.TempDir(), run)
	o.OnPanic = func(any, []byte) {}
	o.Wake = func() error {
		if p.refuseWake.Add(-1) >= 0 {
			return errors.New("the loop's queue is full")
		}
		select {
		case p.woken <- struct{}{}:
		default: // the desk has not come for the last one: a loop that is woken twice takes what is there once
		}
		return nil
	}
	o.Room = func(int) {
		p.rooms++
		p.goOn()
	}
	var err error
	if p.lanes, err = NewLanes(o); err != nil {
		t.Fatal(err)
	}
	p.lanes.open = func(ring.SpillOptions) (spillQueue, error) { return p.disk, nil }
	if err := p.lanes.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// goOn submits what is left until it is told to wait.
func (p *patient) goOn() {
	for len(p.left) > 0 {
		switch err := p.lanes.Submit(0, job{id: p.left[0]}); {
		case err == ErrWait:
			p.waits++
			return
		case err != nil:
			p.failed = err
			p.refusals++
		}
		p.left = p.left[1:]
	}
}

func (p *patient) give(n int) {
	for i := range n {
		p.left = append(p.left, i)
	}
	p.goOn()
}

func (p *patient) take() { p.lanes.Collect(0, func(a *answer) { p.got = append(p.got, *a) }) }

// TestBurstWaitsForTheDisk: a burst beyond the buffer of a spill queue is told to wait, once for each Room, goes on at the
// pace of the disk, and is done as a whole and in order.
func TestBurstWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		p := newPatient(t, 8, func(_ int, in *job, out *answer) { out.id = in.id })
		p.give(n)
		if p.waits != 1 || p.rooms != 0 {
			t.Fatalf("told to wait %d times, to go on %d times, before the disk has taken anything", p.waits, p.rooms)
		}
		for round := 0; len(p.got) < n; round++ {
			if round > 10*n {
				t.Fatalf("%d results, %d not submitted, told to wait %d times, to go on %d times", len(p.got), len(p.left), p.waits, p.rooms)
			}
			p.disk.write(3)
			synctest.Wait()
			select {
			case <-p.woken:
				p.take()
			default:
			}
			if p.waits-p.rooms != min(1, len(p.left)) {
				t.Fatalf("told to wait %d times, to go on %d times, and %d are left", p.waits, p.rooms, len(p.left))
			}
		}
		for i, a := range p.got {
			if a.id != i {
				t.Fatalf("result %d is %d", i, a.id)
			}
		}
		if st := p.lanes.Stats()[0]; p.refusals != 0 || st.Rejected != 0 || st.Accepted != n || int(st.Waited) != p.waits || p.waits < 2 || p.waits != p.rooms {
			t.Errorf("%d refused, told to wait %d times, to go on %d times: %+v", p.refusals, p.waits, p.rooms, st)
		}
		if lost := p.lanes.Stop(t.Context()); lost != 0 {
			t.Errorf("%d lost", lost)
		}
	})
}

// TestWaitEndsWithTheDisk: a producer that waits for a disk is told to go on when the disk fails, and is then refused with
// its words.
func TestWaitEndsWithTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPatient(t, 4, func(_ int, in *job, out *answer) { <-gate })
		p.give(20)
		synctest.Wait()
		if p.waits != 1 || len(p.woken) != 0 {
			t.Fatalf("told to wait %d times, woken %d times", p.waits, len(p.woken))
		}
		p.refuseWake.Store(3)
		p.disk.fail(syscall.ENOSPC)
		<-p.woken
		p.take()
		if p.rooms != 1 || p.waits != 1 || len(p.left) != 0 || !errors.Is(p.failed, ErrRejected) || !errors.Is(p.failed, syscall.ENOSPC) {
			t.Errorf("told to wait %d times, to go on %d times, %d left, %v", p.waits, p.rooms, len(p.left), p.failed)
		}
		if st := p.lanes.Stats()[0]; st.Rejected == 0 || int(st.Rejected) != p.refusals {
			t.Errorf("%d refused: %+v", p.refusals, st)
		}
		close(gate)
		p.endWith(t)
	})
}

// endWith stops the lanes while the test collects.
func (p *patient) endWith(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.lanes.Stop(t.Context())
	}()
	for {
		select {
		case <-p.woken:
			p.take()
		case <-ended:
			return
		}
	}
}

// TestWaitEndsWithTheLanes: Stop tells a producer that waits to go on, once, also when the consumer comes only after its
// context has ended; what it submits then finds the lanes closed.
func TestWaitEndsWithTheLanes(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newPatient(t, 4, func(_ int, in *job, out *answer) {})
			p.give(20)
			synctest.Wait()
			p.take() // so that nothing else keeps Stop
			p.refuseWake.Store(1)
			if inTime {
				if p.endWith(t); p.rooms != 1 {
					t.Error("Stop has not waited for Room")
				}
			} else {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				p.lanes.Stop(ctx)
			}
			p.take()
			p.take()
			if p.waits != 1 || p.rooms != 1 || len(p.left) != 0 || p.failed != ErrClosed {
				t.Errorf("in time %v: told to wait %d times, to go on %d times, %d left, %v", inTime, p.waits, p.rooms, len(p.left), p.failed)
			}
		})
	}
}

// TestRoomBeforeTheWait: work that finds the buffer full, but room when it is about to wait, is taken and nobody is told.
func TestRoomBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPatient(t, 100, func(_ int, in *job, out *answer) { <-gate })
		p.disk.hasty = true
		p.give(20)
		close(gate)
		p.disk.write(100)
		for len(p.got) < 20 {
			<-p.woken
			p.take()
		}
		if st := p.lanes.Stats()[0]; p.waits != 0 || p.rooms != 0 || st.Waited != 0 || st.Accepted != 20 {
			t.Errorf("told to wait %d times, to go on %d times: %+v", p.waits, p.rooms, st)
		}
		p.endWith(t)
	})
}
