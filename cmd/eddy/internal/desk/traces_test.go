package desk

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestDeskTraces: with --trace-sample the operator's page and the numbers show where commands have been. Without it nothing is recorded.
func TestDeskTraces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags   []string
		watched string
	}{"recorded": {[]string{"--trace-sample", "1"}, `{"watched":true,`}, "off": {nil, `{"watched":false,`}, "of trusted clients": {[]string{"--trust-trace"}, `{"watched":true,"traces":[]`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, account := cmdtest.MadeDesk(t)
			p := cmdtest.StartServer(t, append([]string{"desk", "--addr", "127.0.0.1:0", "--data", data, "--admin", "127.0.0.1:0"}, c.flags...)...)
			base := p.Operator()
			greet(t, p.Addr, account[1], account[2])
			var body string
			testkit.Eventually(t, "the records", func() bool {
				_, body = cmdtest.Get(t, base+"/traces")
				return name != "recorded" || strings.Contains(body, `"name":"msg.send"`) && strings.Contains(body, `"name":"take"`)
			})
			if !strings.HasPrefix(body, c.watched) || (name == "recorded") != strings.Contains(body, `"recorder":"desk"`) || name == "recorded" && !strings.Contains(body, `"peer":""`) {
				t.Errorf("/traces: %s", body)
			}
			if _, numbers := cmdtest.Get(t, base+"/metrics"); (name != "off") != strings.Contains(numbers, `eddy_trace_sampled_total{recorder="desk"}`) {
				t.Errorf("/metrics with %q: %s", c.flags, numbers)
			}
			p.Stop()
		})
	}
	for _, bad := range []string{"-0.1", "1.5", "NaN"} {
		cmdtest.ExpectFailure(t, []string{"desk", "--trace-sample=" + bad, "--data", t.TempDir()}, "--trace-sample", "0.01")
	}
}
