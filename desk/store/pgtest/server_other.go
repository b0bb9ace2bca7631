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
