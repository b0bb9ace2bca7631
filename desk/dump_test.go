package desk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestExhaustedPoolDumps: the pool of requests leaves a dump of goroutines where the options say.
func TestExhaustedPoolDumps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dumps")
	o := testOptions(t)
	o.Dumper = &executor.Dumper{Dir: dir}
	d := openDesk(t, o)
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	var err error
	for n := 0; err == nil; n++ {
		if err = d.pool.SubmitFunc(func() { <-gate }); n > 10*(front.Workers+httpQueue) {
			t.Fatal("the pool is never full")
		}
	}
	close(gate)
	if _, err := d.pool.Shutdown(testkit.Context(t)); err != nil { // waits for the report, too
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), `pool "http" is exhausted`) {
		t.Errorf("%v, %.200s", err, text)
	}
}
