package executor

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// newPool returns a pool that is shut down when the test ends.
func newPool(t testing.TB, o Options) *Pool {
	t.Helper()
	p, err := NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// receive waits for a value of c.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing received in time")
		panic("unreachable")
	}
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// occupy fills n workers of p until the returned function is called.
func occupy(t testing.TB, p *Pool, n int) (release func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	for range n {
		if err := p.SubmitFunc(func() { entered <- struct{}{}; <-gate }); err != nil {
			t.Fatal(err)
		}
		receive(t, entered)
	}
	return func() { close(gate) }
}
