package pools

import (
	"context"
	"errors"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// TestSet: a set knows its workers, and its pools end side by side: one that hangs does not keep the others.
func TestSet(t *testing.T) {
	var s Set
	if s.OnWorker() || s.End(t.Context()) != nil {
		t.Error("an empty set")
	}
	for range 2 {
		p, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 1})
		if err != nil {
			t.Fatal(err)
		}
		s.Add(p)
	}
	inside, gate := make(chan bool), make(chan struct{})
	for _, p := range s.All() {
		if err := p.SubmitFunc(func() { inside <- s.OnWorker(); <-gate }); err != nil {
			t.Fatal(err)
		}
		if !<-inside {
			t.Error("a worker is not known")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.End(ctx); !errors.Is(err, context.Canceled) || s.OnWorker() {
		t.Errorf("%v with workers that hang", err)
	}
	close(gate)
	if err := s.End(t.Context()); err != nil {
		t.Error(err)
	}
}
