package http2

import (
	"crypto/tls"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// TestH2spec runs the cases of h2spec, a conformance suite that others have written: on both forms of handlers, plain and
// with TLS. It needs the program h2spec.
func TestH2spec(t *testing.T) {
	h2spec := testkit.Tool(t, "h2spec")
	cert, err := tlsx.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	onLoop := func(w *http1.LoopResponse, _ *http1.LoopRequest) bool {
		_, _ = w.WriteString("hello")
		return true
	}
	for name, c := range map[string]struct {
		onLoop http1.LoopHandler
		secure bool
	}{
		"pool": {nil, false}, "loop": {onLoop, false}, "pool with TLS": {nil, true}, "loop with TLS": {onLoop, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, setup{opts: Options{OnLoop: c.onLoop}, handler: func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					echo(w, r)
					return
				}
				hello(w, r)
			}, init: func(f *Factory) func(*eddy.Pipeline) error {
				if !c.secure {
					return f.Init
				}
				layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}, f.pool, tlsx.Options{
					Established: tlsx.ByProtocol(map[string]func(*eddy.Pipeline) error{"h2": f.Init}),
				})
				if err != nil {
					t.Fatal(err)
				}
				return func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
			}})
			host, port, _ := net.SplitHostPort(s.addr)
			args := []string{"-h", host, "-p", port, "--timeout", "10"}
			if c.secure {
				args = append(args, "-t", "-k")
			}
			out, err := exec.CommandContext(testkit.Context(t), h2spec, args...).CombinedOutput()
			text := string(out)
			if i := strings.Index(text, "Failures:"); i >= 0 {
				text = text[i:]
			}
			if err != nil || !strings.Contains(text, "145 tests, 145 passed") {
				t.Errorf("%v\n%s", err, text[max(0, len(text)-3000):])
			}
		})
	}
}
