package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestHandshakesDump: an exhausted pool of handshakes leaves a dump where the command line says, and none when that is off.
func TestHandshakesDump(t *testing.T) {
	for _, onOff := range []string{"on", "off"} {
		dir := filepath.Join(t.TempDir(), "dumps")
		pool, err := handshakePool(&executor.Dumper{Dir: dir, Disabled: onOff == "off"})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for n := 0; err == nil; n++ {
			if err = pool.SubmitFunc(func() { <-gate }); n > 10_000 {
				t.Fatal("the pool is never full")
			}
		}
		close(gate)
		if _, err := pool.Shutdown(t.Context()); err != nil { // waits for the report, too
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt"))
		if want := map[string]int{"on": 1, "off": 0}[onOff]; len(files) != want {
			t.Fatalf("--dump %s: files %v", onOff, files)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), `pool "handshakes" is exhausted`) {
				t.Errorf("%v, %.200s", err, text)
			}
		}
	}
}

// TestServersDump: an exhausted pool of a real server leaves a dump, with nothing but the flag for the directory.
func TestServersDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dumps")
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--workers", "1", "--queue", "1", "--dump-dir", dir)
	for range 8 {
		c := cmdtest.Connect(t, p.Addr)
		defer c.Close()
		if _, err := c.Write([]byte("GET /slow?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the dump", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt"))
		return len(files) == 1
	})
}
