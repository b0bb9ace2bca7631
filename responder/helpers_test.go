package responder_test

import (
	"bufio"
	"log/slog"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is a logger for tests that provoke errors.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newPool(t testing.TB, workers, queue int) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: t.Name(), Workers: workers, Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("pool shutdown: %v", err)
		}
	})
	return p
}

// expectLines reads lines and compares them.
func expectLines(t testing.TB, r *bufio.Reader, want ...string) {
	t.Helper()
	for _, w := range want {
		got, err := r.ReadString('\n')
		if err != nil || got != w+"\n" {
			t.Fatalf("read %q, %v, want %q", got, err, w)
		}
	}
}

// end is a handler that records why its one connection has ended.
type end struct {
	mu     sync.Mutex
	reason eddy.CloseReason
	err    error
}

func (e *end) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reason, e.err = reason, err
}

// wait returns the cause of the end, which must be for that reason.
func (e *end) wait(t testing.TB, want eddy.CloseReason) error {
	t.Helper()
	var got eddy.CloseReason
	var err error
	testkit.Eventually(t, "the end of the connection", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		got, err = e.reason, e.err
		return got != eddy.CloseUnset
	})
	if got != want {
		t.Fatalf("closed with %v (%v), want %v", got, err, want)
	}
	return err
}
