package auth

import (
	"fmt"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBuckets(2, 3, 100)
	for i := range 3 {
		if w := b.Take("a", now); w != 0 {
			t.Fatalf("token %d: wait %v", i, w)
		}
	}
	if w := b.Take("a", now); w != 500*time.Millisecond {
		t.Fatalf("wait %v, want 500 ms", w)
	}
	if !b.Allow("b", now) {
		t.Error("another key has no tokens")
	}
	if w := b.Take("a", now.Add(-time.Hour)); w == 0 {
		t.Error("a clock that goes back gives tokens")
	}
	now = now.Add(500 * time.Millisecond)
	if !b.Allow("a", now) || b.Allow("a", now) {
		t.Error("half a second is one token")
	}
	b.Return("a")
	b.Return("unknown")
	if !b.Allow("a", now) || b.Allow("a", now) {
		t.Error("a returned token is one token")
	}
	now = now.Add(time.Hour)
	for i := range 3 {
		if !b.Allow("a", now) {
			t.Fatalf("after an hour, token %d", i)
		}
	}
	if b.Allow("a", now) {
		t.Error("more saved than the burst")
	}
	for range 100 {
		if !NewBuckets(0, 0, 1).Allow("a", now) {
			t.Error("no limit refuses")
		}
	}
}

// Keys that are spent stay as long as there is room; those that are full again go first.
func TestBucketsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBuckets(1, 2, 100)
	for range 2 {
		b.Allow("spent", now.Add(10*time.Second))
	}
	for i := range 99 {
		b.Allow(fmt.Sprint("old ", i), now)
	}
	now = now.Add(10 * time.Second)
	b.Allow("new", now)
	if b.Len() != 2 || b.Allow("spent", now) {
		t.Errorf("%d keys, and the spent one has tokens", b.Len())
	}
	for i := range 10_000 {
		b.Allow(fmt.Sprint("flood ", i), now)
		if b.Len() > 100 {
			t.Fatalf("%d keys", b.Len())
		}
	}
}
