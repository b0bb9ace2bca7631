package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// line notes the owners that are told.
type line struct {
	mu   sync.Mutex
	told []int
}

func (l *line) room(i int) *Room {
	return NewRoom(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.told = append(l.told, i)
	})
}

func (l *line) have() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.told...)
}

func (l *line) expect(t *testing.T, what string, want ...int) {
	t.Helper()
	testkit.Eventually(t, what, func() bool { return len(l.have()) >= len(want) })
	got := l.have()
	if len(got) != len(want) {
		t.Fatalf("%s: told %v, want %v", what, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: told %v, want %v", what, got, want)
		}
	}
}

// TestRoomIsTold: owners that wait for room are told in order, as many as there is room for. Room comes when a worker
// takes something, when one becomes idle and when the pool grows. An owner that leaves passes the room on; leaving the
// line is not being told.
func TestRoomIsTold(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: HandOff})
	var l line
	rooms := make([]*Room, 6)
	for i := range rooms {
		rooms[i] = l.room(i)
	}
	p.AwaitRoom(rooms[0])
	l.expect(t, "there is room", 0)
	release := occupy(t, p, 1)
	for _, r := range rooms[1:] {
		p.AwaitRoom(r)
		p.AwaitRoom(r) // has its place
	}
	p.LeaveRoom(rooms[3])
	l.expect(t, "nobody, while the worker is busy", 0)
	release()
	l.expect(t, "the worker is idle", 0, 1)
	p.LeaveRoom(rooms[1]) // does not use it
	l.expect(t, "it was passed on", 0, 1, 2)
	release = occupy(t, p, 1)
	if err := p.Resize(2, 0); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "the pool has grown", 0, 1, 2, 4)
	p.AwaitRoom(rooms[1])
	l.expect(t, "there is room for the rest", 0, 1, 2, 4, 5)
	release()
}

// TestRoomOfAClosedPool: when the pool takes nothing any more everybody is told.
func TestRoomOfAClosedPool(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: HandOff})
	release := occupy(t, p, 1)
	var l line
	p.AwaitRoom(l.room(1))
	p.AwaitRoom(l.room(2))
	p.Close()
	l.expect(t, "the end", 1, 2)
	p.AwaitRoom(l.room(3))
	l.expect(t, "after the end", 1, 2, 3)
	release()
}

// TestRoomIsEnoughForAll: many owners submit to a small pool through the line only, and some give up the room they were
// told of. Everything that is wanted runs, and no owner has to ask without being told.
func TestRoomIsEnoughForAll(t *testing.T) {
	for name, queue := range map[string]int{"hand-off": HandOff, "queue": 3} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Options{Workers: 2, Queue: queue})
			const owners, each = 50, 40
			var ran atomic.Int64
			var wg sync.WaitGroup
			for i := range owners {
				wg.Go(func() {
					told := make(chan struct{}, 1)
					r := NewRoom(func() {
						select {
						case told <- struct{}{}:
						default: // one that was under way when the owner left the line came before
						}
					})
					for n := 0; n < each; {
						err := p.SubmitFunc(func() { ran.Add(1) })
						if err == nil {
							n++
							continue
						}
						if !errors.Is(err, ErrRejected) {
							t.Error(err)
							return
						}
						p.AwaitRoom(r)
						if i%5 == 0 && n%3 == 0 { // changes its mind
							p.LeaveRoom(r)
							select {
							case <-told:
							default:
							}
							p.AwaitRoom(r)
						}
						testkit.Receive(t, "the report", told)
					}
				})
			}
			wg.Wait()
			if _, err := p.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if n := ran.Load(); n != owners*each {
				t.Errorf("%d tasks ran, want %d", n, owners*each)
			}
		})
	}
}

// TestRoomInTheQueue: an owner is told when a worker takes something out of a full queue, though no worker becomes idle.
func TestRoomInTheQueue(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	release := occupy(t, p, 1)
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := p.SubmitFunc(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	var l line
	p.AwaitRoom(l.room(1))
	l.expect(t, "nobody, while the queue is full")
	release()
	testkit.Receive(t, "the beginning of a task", entered)
	l.expect(t, "a place in the queue", 1)
	close(gate)
}
