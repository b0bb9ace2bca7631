package eddy

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestSignalHasItsPlace: a full task queue refuses what is posted and takes a signal, in its order; raised twice it runs
// once; what is raised while it runs has it run again; after the end of the loop it says so.
func TestSignalHasItsPlace(t *testing.T) {
	srv := &Server{Group: &Group{Loops: 1, TaskQueue: 2}}
	ctx, _ := opened(t, srv, nil)
	c := ctx.conn
	var order []string // the loop's, until ran is closed
	ran := make(chan struct{})
	var s Signal
	again := true
	s.Init(c, func() {
		order = append(order, "signal")
		if again {
			again = false
			if err := s.Raise(); err != nil {
				t.Error(err)
			}
			return
		}
		close(ran)
	})
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := c.Post(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-entered
	for range 2 {
		if err := c.Post(func() { order = append(order, "post") }); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Post(func() {}); err != ErrSaturated {
		t.Fatalf("Post to a full queue = %v", err)
	}
	for range 3 {
		if err := s.Raise(); err != nil {
			t.Fatalf("Raise with a full queue = %v", err)
		}
	}
	if n := c.loop.Tasks.Depth(); n != 3 {
		t.Errorf("%d tasks wait, want 2 that were posted and the signal", n)
	}
	close(gate)
	testkit.Receive(t, "the signal to run again", ran)
	if len(order) != 4 || order[1] != "post" || order[2] != "signal" {
		t.Errorf("order %v", order)
	}
	srv.Close()
	<-c.CloseFuture().Done()
	if err := srv.Group.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Raise(); err != ErrClosed {
			t.Errorf("Raise after the end of the loop = %v", err)
		}
	}
}

// TestSignalFromManyGoroutines: the run after the last Raise sees what was put there before it.
func TestSignalFromManyGoroutines(t *testing.T) {
	ctx, _ := opened(t, &Server{Loops: 1}, nil)
	const goroutines, raises = 4, 500
	var put atomic.Int64
	seen := make(chan struct{})
	var s Signal
	s.Init(ctx.conn, func() {
		if put.Load() == goroutines*raises {
			close(seen)
		}
	})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range raises - 1 {
				put.Add(1)
				if err := s.Raise(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	put.Add(goroutines)
	if err := s.Raise(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "a run that sees all of it", seen)
}
