package eddy_test

import (
	"os"
	"testing"
)

// fitsSelect skips a test that needs n descriptors where select(2) cannot take so many.
func fitsSelect(t *testing.T, n int) {
	t.Helper()
	const limit = 900 // of 1024, so that there is room for what a test process has open besides
	if os.Getenv("EDDY_POLLER") == "select" && n > limit {
		t.Skipf("needs %d descriptors: select(2) takes only those below 1024", n)
	}
}
