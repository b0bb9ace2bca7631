package executor

import "testing"

// TestLimits: a pool tells the limits it has, those of its kind and those it was resized to.
func TestLimits(t *testing.T) {
	p, err := NewFixed(Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	look := func(workers, queue int) {
		t.Helper()
		if w, q := p.Limits(); w != workers || q != queue {
			t.Errorf("%d workers and %d waiting, want %d and %d", w, q, workers, queue)
		}
	}
	look(3, DefaultQueue)
	if err := p.Resize(5, HandOff); err != nil {
		t.Fatal(err)
	}
	look(5, 0)
}
