package hub

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// TestPoolsShareTheDumper: every pool of the hub reports its exhaustion to the one dumper of the program.
func TestPoolsShareTheDumper(t *testing.T) {
	dir := t.TempDir()
	h := &Hub{o: Options{Logger: slog.New(slog.DiscardHandler), Dumper: &executor.Dumper{Dir: dir}}}
	for range 2 {
		p, err := h.pool("test", 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for err == nil {
			err = p.SubmitFunc(func() { <-gate })
		}
		close(gate)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "eddy-goroutines-*.txt")); len(files) != 1 {
			t.Fatalf("files %v, want one for all", files)
		}
	}
}
