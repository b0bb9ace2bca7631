// Package testkit is the common part of the tests of all packages: waiting for a condition, collecting output, finding
// a program. It knows nothing of the engine; package enginetest does.
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

// Patience bounds every wait of a test for something that must happen. It is far longer than anything takes on a busy
// machine, so that running out of it means that the thing does not happen.
const Patience = 2 * time.Minute

// pollEvery is the pause between two looks at a condition; it grows to pollMost, because many tests may wait side by side.
const (
	pollEvery = 200 * time.Microsecond
	pollMost  = 10 * time.Millisecond
)

// Eventually returns when holds returns true. After Patience it fails the test and says what it waited for. Only the
// test's goroutine may call it.
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

// Context returns a context that ends after Patience, or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of c, or the zero value when c is closed. After Patience it fails the test and says
// what it waited for. Only the test's goroutine may call it.
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

// Required reports whether EDDY_REQUIRE names what. A test that lacks it then fails instead of being skipped.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("EDDY_REQUIRE"), ","), what)
}

// Tool returns the path of the first installed program of names; without names it looks for what. If there is none, the
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

var wholeBrowsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Browser is Tool for a browser. One that draws pages and does nothing else is taken first: it costs three fifths of a whole one.
func Browser(t testing.TB) string {
	t.Helper()
	return Tool(t, "browser", append([]string{"chromium-headless-shell", "chrome-headless-shell", "headless-shell"}, wholeBrowsers...)...)
}

// WholeBrowser is Tool for a browser with everything, by the name chromium: workers that show notifications, for example.
func WholeBrowser(t testing.TB) string {
	t.Helper()
	return Tool(t, "chromium", wholeBrowsers...)
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
