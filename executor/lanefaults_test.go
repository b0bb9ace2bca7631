package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestCollectWhoseWakeFails: what Collect leaves is told again, also when telling fails at first and no worker has
// anything to do.
func TestCollectWhoseWakeFails(t *testing.T) {
	woken := make(chan struct{}, 1)
	var refuse atomic.Bool
	l, err := NewLanes(LanesOptions[job, answer]{
		Lanes: []Lane{{Name: "a"}, {Name: "b"}},
		Run:   func(_ int, in *job, out *answer) { out.id = in.id },
		Wake: func() error {
			if refuse.Swap(false) {
				return errors.New("the loop's queue is full")
			}
			woken <- struct{}{}
			return nil
		},
	})
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Stop(ctx)
	}()
	for i := range 3 {
		if err := l.Submit(1, job{id: i}); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); l.Stats()[1].Done < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", l.Stats())
		}
	}
	got := 0
	for got < 3 {
		select {
		case <-woken:
			refuse.Store(got == 0)
			got += l.Collect(1, func(*answer) {})
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of 3 results", got)
		}
	}
}
