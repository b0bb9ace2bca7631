package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestServersAreAdaptive: with --adaptive a server's pool begins with a limit of its own below its workers, and without it may use them all.
func TestServersAreAdaptive(t *testing.T) {
	for _, c := range []struct{ server, workers string }{{"http", "--workers"}, {"frame", "--workers"}, {"rpc", "--threads"}} {
		for _, on := range []bool{false, true} {
			args, want := []string{"serve", c.server, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", c.workers, "50"}, "50"
			if on {
				args, want = append(args, "--adaptive"), "20"
			}
			p := cmdtest.StartServer(t, args...)
			_, text := cmdtest.Get(t, p.Operator()+"/metrics")
			var limits []string
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "eddy_pool_workers_limit{") {
					words := strings.Fields(line)
					limits = append(limits, words[len(words)-1])
				}
			}
			if !slices.Contains(limits, want) {
				t.Errorf("%v: limits %v, want %s", args, limits, want)
			}
			p.Stop()
		}
	}
}
