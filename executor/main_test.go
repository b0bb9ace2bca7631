package executor

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPool returns a pool that is shut down when the test ends.
func newPool(t testing.TB, o Options) *Pool {
	t.Helper()
	p, err := NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if _, err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// occupy fills n workers of p until the returned function is called.
func occupy(t testing.TB, p *Pool, n int) (release func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	for range n {
		if err := p.SubmitFunc(func() { entered <- struct{}{}; <-gate }); err != nil {
			t.Fatal(err)
		}
		testkit.Receive(t, "a worker", entered)
	}
	return func() { close(gate) }
}
