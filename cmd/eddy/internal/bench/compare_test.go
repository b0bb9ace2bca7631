package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestBenchCompare: the runs of one server against themselves show no difference, two runs show nothing, and settings that are not alike are told.
func TestBenchCompare(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0")
	dir := t.TempDir()
	runs := func(name string, args ...string) string {
		out, errs, code := runBench(t, 100*time.Millisecond, append([]string{"bench", "echo", "--addr", p.Addr, "--conns", "2", "--warmup", "0s", "--json"}, args...)...)
		if code != 0 {
			t.Fatalf("exit code %d, %q", code, errs)
		}
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	three, two := runs("three.json", "--runs", "3"), runs("two.json", "--runs", "2", "--size", "65")
	p.Stop()
	out, errs, code := cmdtest.Run(t, "bench", "compare", three, three)
	if code != 0 || errs != "" || strings.Count(out, "no difference shown") != 6 || !strings.Contains(out, "1.000 (") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	out, errs, code = cmdtest.Run(t, "bench", "compare", three, two)
	if code != 0 || strings.Count(out, "too few runs to tell") != 6 || !strings.Contains(errs, "size: 64 and 65") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	out, _, code = cmdtest.Run(t, "bench", "compare", "--json", three, two+","+two)
	if code != 0 || !strings.Contains(out, `"runs":4`) || !strings.Contains(out, `"verdict":"`) {
		t.Errorf("exit code %d, %q", code, out)
	}
}
