package auth

import (
	"fmt"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	start := time.Unix(1e9, 0)
	w := NewWindow(3, time.Hour, 100)
	for i := range 3 {
		if wait := w.Take("a", start.Add(time.Duration(i)*10*time.Minute)); wait != 0 {
			t.Fatalf("%d: wait %v", i, wait)
		}
	}
	if wait := w.Take("a", start.Add(30*time.Minute)); wait != 30*time.Minute {
		t.Fatalf("wait %v, want 30 min", wait)
	}
	if w.Take("b", start) != 0 {
		t.Error("another key has to wait")
	}
	if wait := w.Take("a", start.Add(time.Hour)); wait != 0 {
		t.Errorf("an hour after the first: %v", wait)
	}
	if wait := w.Take("a", start.Add(time.Hour)); wait != 10*time.Minute {
		t.Errorf("and then: %v, want 10 min", wait)
	}
	w.Return("a")
	w.Return("nobody")
	if w.Take("a", start.Add(time.Hour)) != 0 || w.Take("a", start.Add(time.Hour)) == 0 {
		t.Error("one that was taken back is one")
	}
	w.Return("b")
	if w.Len() != 1 {
		t.Errorf("%d keys", w.Len())
	}
	for range 100 {
		if NewWindow(0, time.Hour, 1).Take("a", start) != 0 {
			t.Fatal("no limit refuses")
		}
	}
}

func TestWindowIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	w := NewWindow(1, time.Hour, 100)
	for i := range 99 {
		w.Take(fmt.Sprint("old ", i), now)
	}
	w.Take("young", now.Add(time.Hour))
	w.Take("new", now.Add(time.Hour))
	if w.Len() != 2 || w.Take("young", now.Add(time.Hour)) == 0 {
		t.Errorf("%d keys, and the young one may go on", w.Len())
	}
	for i := range 10_000 {
		w.Take(fmt.Sprint("flood ", i), now.Add(time.Hour))
		if w.Len() > 100 {
			t.Fatalf("%d keys", w.Len())
		}
	}
}
