// Package testkit is what the tests of all packages have in common: waiting for a condition, collecting output, finding a
// program. It knows nothing of the engine; package enginetest does.
package testkit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait of a test for something that must happen. It is far beyond what anything takes on a machine
// that is busy with other work, so that running out of it means that the thing does not happen.
const Patience = 2 * time.Minute

// pollEvery is the pause between two looks at a condition; it grows to pollMost, because many tests may wait side by side.
const (
	pollEvery = 200 * time.Microsecond
	pollMost  = 10 * time.Millisecond
)

// Eventually returns when holds does, and fails the test after Patience with what it waited for. Only the test's goroutine
// may call it.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := pollEvery
	for end := time.Now().Add(Patience); !holds(); pause = min(2*pause, pollMost) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// Context ends after Patience, or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of c, and fails the test after Patience with what it waited for. It returns the zero
// value when c is closed. Only the test's goroutine may call it.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("waited %v for %s", Patience, what)
		panic("unreachable")
	}
}

// Required reports whether EDDY_REQUIRE names what: a test that cannot have it fails then, instead of being skipped.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), what)
}

// Tool returns the path of the first program of names that is installed, of what itself without names. Without any the
// test is skipped, or fails if EDDY_REQUIRE names what.
func Tool(t testing.TB, what string, names ...string) string {
	t.Helper()
	if len(names) == 0 {
		names = []string{what}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if Required(what) {
		t.Fatalf("%s is required by EDDY_REQUIRE and is not installed", what)
	}
	t.Skipf("%s is not installed", what)
	panic("unreachable")
}

// Output collects what is written to it. Any goroutine may call its methods; the zero value is ready.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
