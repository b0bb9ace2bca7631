package files

import (
	"context"
	"strings"
	"sync"
	"testing"
)

func shared(t *testing.T, dir string) *Store {
	t.Helper()
	d, err := OpenDirectory(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Place: d})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBelongs: all servers of a database have one directory. One that has another is told so.
func TestBelongs(t *testing.T) {
	var mu sync.Mutex
	var kept string
	known := func(_ context.Context, id string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if kept == "" {
			kept = id
		}
		return kept, nil
	}
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		s := shared(t, dir)
		all.Go(func() {
			if err := s.Belongs(t.Context(), known); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if kept == "" {
		t.Error("the directory has no id")
	}
	other := shared(t, t.TempDir())
	for range 2 {
		if err := other.Belongs(t.Context(), known); err == nil || !strings.Contains(err.Error(), directory(other).path) || !strings.Contains(err.Error(), "--files") {
			t.Errorf("another directory: %v", err)
		}
	}
	if err := shared(t, dir).Belongs(t.Context(), known); err != nil {
		t.Error(err)
	}
}
