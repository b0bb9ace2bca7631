package pools

import (
	"context"
	"errors"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestSet: a set knows its workers, and its pools end side by side: one that hangs does not keep the others.
func TestSet(t *testing.T) {
	var s Set
	if s.OnWorker() || s.End(t.Context()) != nil {
		t.Error("an empty set")
	}
	inside, gate := make(chan bool), make(chan struct{})
	for range 2 {
		p, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 1})
		if err != nil {
			t.Fatal(err)
		}
		s.Add(p)
		if err := p.SubmitFunc(func() { inside <- s.OnWorker(); <-gate }); err != nil {
			t.Fatal(err)
		}
		if !<-inside {
			t.Error("a worker is not known")
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.End(t.Context()) }()
	for _, p := range s.All() {
		testkit.Eventually(t, "the end of both to begin", func() bool { return errors.Is(p.SubmitFunc(func() {}), executor.ErrClosed) })
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.End(late); !errors.Is(err, context.Canceled) || s.OnWorker() {
		t.Errorf("%v with workers that hang", err)
	}
	close(gate)
	if err := testkit.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}
