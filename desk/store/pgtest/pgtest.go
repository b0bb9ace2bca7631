// Package pgtest is for tests that need PostgreSQL: one server for each test program, with its data in a temporary directory,
// reached by a Unix socket there alone.
package pgtest

import (
	"fmt"
	"os"
	"testing"
)

// Closing runs the tests of a package, after which it ends the server.
type Closing struct{ *testing.M }

// Run runs the tests.
func (c Closing) Run() int {
	code := c.M.Run()
	if err := Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}
