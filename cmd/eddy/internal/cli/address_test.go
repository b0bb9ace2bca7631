package cli

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy"
)

// TestExplainListen: the layers of the program say only once that they could not listen. What is wrong besides the
// address stands for itself.
func TestExplainListen(t *testing.T) {
	const addr = "127.0.0.1"
	init := func(*eddy.Pipeline) error { return nil }
	bad := (&eddy.Server{Init: init, Loops: 1}).Listen("tcp", addr)
	setting := (&eddy.Server{Init: init, Loops: -1}).Listen("tcp", addr)
	for _, c := range []struct {
		err  error
		want string
	}{
		{bad, "cannot listen on 127.0.0.1: address 127.0.0.1: missing port in address"},
		{fmt.Errorf("rpc: port %q: %w", "rpc", bad), "cannot listen on 127.0.0.1: address 127.0.0.1: missing port in address"},
		{setting, setting.Error()},
	} {
		if got := ExplainListen("--addr", addr, c.err); got.Error() != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
