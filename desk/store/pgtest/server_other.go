//go:build !unix

package pgtest

import "testing"

// Database skips the test: servers for tests are started on Unix only.
func Database(t testing.TB, _ func(url string) error) string {
	t.Helper()
	t.Skip("servers for tests are started on Unix only")
	return ""
}

// Lasting is as Database.
func Lasting(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	return Database(t, prepare)
}

// Stop is never called, because Database has skipped the test.
func Stop(testing.TB) {}

// Start is never called, because Database has skipped the test.
func Start(testing.TB) {}

// Close does nothing.
func Close() error { return nil }

// Pair is never there.
type Pair struct{}

// StartPair skips the test, as Database does.
func StartPair(t testing.TB) *Pair {
	Database(t, nil)
	return nil
}

// URL is never called, nor are the other methods.
func (*Pair) URL() string { return "" }

// Socket is never called.
func (*Pair) Socket(int) string { return "" }

// Primary is never called.
func (*Pair) Primary() int { return 0 }

// Stop is never called.
func (*Pair) Stop(testing.TB) {}

// Start is never called.
func (*Pair) Start(testing.TB) {}

// Promote is never called.
func (*Pair) Promote(testing.TB) {}

// Rejoin is never called.
func (*Pair) Rejoin(testing.TB) {}
