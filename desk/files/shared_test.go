package files

import (
	"strings"
	"sync"
	"testing"
)

func shared(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBelongs: all servers of a database have one directory. One that has another is told so.
func TestBelongs(t *testing.T) {
	var mu sync.Mutex
	var kept string
	known := func(id string) (string, error) {
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
			if err := s.Belongs(known); err != nil {
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
		if err := other.Belongs(known); err == nil || !strings.Contains(err.Error(), other.o.Dir) || !strings.Contains(err.Error(), "--files") {
			t.Errorf("another directory: %v", err)
		}
	}
	if err := shared(t, dir).Belongs(known); err != nil {
		t.Error(err)
	}
}
