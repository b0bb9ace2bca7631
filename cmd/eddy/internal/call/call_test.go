package call

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestCallNoServer: what listens there and speaks something else, or nothing.
func TestCallNoServer(t *testing.T) {
	t.Parallel()
	if _, stderr, code := cmdtest.Run(t, "call", cmdtest.BusyAddr(t), "a", "b", "--timeout", "2s"); code != exitDeadline || !strings.Contains(stderr, "no response within the timeout") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-line", "10")
	if _, stderr, code := cmdtest.Run(t, "call", p.Addr, "--timeout", "2m", "a", "b"); code != exitConnect && code != exitOther {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
