package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// exchange lets two servers tell each other what they have spent.
func exchange(a, b *Shared, now time.Time) {
	for _, way := range [][2]*Shared{{a, b}, {b, a}} {
		for {
			spent := way[0].Spent(2, now)
			if len(spent) == 0 {
				break
			}
			for i := range spent {
				spent[i].Node = fmt.Sprintf("%p", way[0]) // as the store does
			}
			way[1].Spend(spent, now)
		}
	}
}

// sharing are the same buckets at two servers.
func sharing(perSecond float64, burst, max int) (a, b *Shared, one, two *Buckets) {
	secret := []byte("the same at both")
	a, b = NewShared(secret), NewShared(secret)
	return a, b, a.Count("limit", NewBuckets(perSecond, burst, max)), b.Count("limit", NewBuckets(perSecond, burst, max))
}

// TestSharedBuckets: what one server has spent, the other one has spent, too. What is given back is given back at both.
func TestSharedBuckets(t *testing.T) {
	a, b, one, two := sharing(1, 10, 100)
	now := time.Unix(1000, 0)
	for range 6 {
		if !one.Allow("k", now) {
			t.Fatal("refused")
		}
	}
	one.Return("k")
	exchange(a, b, now)
	for i := range 5 {
		if !two.Allow("k", now) {
			t.Errorf("number %d is refused", i)
		}
	}
	if two.Allow("k", now) {
		t.Error("more than both may spend")
	}
	if !two.Allow("other", now) {
		t.Error("another key is refused")
	}
	exchange(a, b, now)
	if one.Allow("k", now) {
		t.Error("the first server does not know what the second one has spent")
	}
	if now = now.Add(time.Second); !one.Allow("k", now) {
		t.Error("nothing comes back with time")
	}
	exchange(a, b, now)
	exchange(a, b, now)
	if two.Allow("k", now) {
		t.Error("what has come back is spent twice")
	}
}

// TestSharedDebt: what both have spent before they heard of each other is paid back, at most a burst of it.
func TestSharedDebt(t *testing.T) {
	a, b, one, two := sharing(1, 10, 100)
	now := time.Unix(1000, 0)
	for range 10 {
		one.Allow("k", now)
		two.Allow("k", now)
	}
	exchange(a, b, now)
	for i, table := range []*Buckets{one, two} {
		if wait := table.Take("k", now); wait != 11*time.Second {
			t.Errorf("server %d waits for %v", i+1, wait)
		}
	}
	a.Spend(nil, now)
	a.Spend([]store.Spent{{Limit: "limit", Key: a.id("k"), N: 1000}}, now)
	if wait := one.Take("k", now); wait != 11*time.Second {
		t.Errorf("owes more than a burst: %v", wait)
	}
}

// TestSharedHot: the others are told at once when a part of a limit is spent, and with the next look otherwise.
func TestSharedHot(t *testing.T) {
	a, _, one, _ := sharing(1, 100, 100)
	now := time.Unix(1000, 0)
	hot := func() bool {
		select {
		case <-a.Hot():
			return true
		default:
			return false
		}
	}
	for range 9 {
		one.Allow("k", now)
	}
	if hot() {
		t.Error("hot after 9 of 100")
	}
	one.Allow("k", now)
	if !hot() || hot() {
		t.Error("not hot after 10 of 100, or twice")
	}
	if got := a.Spent(10, now); len(got) != 1 || got[0].N != 10 || got[0].Limit != "limit" || got[0].Key == "k" {
		t.Errorf("%+v", got)
	}
	one.Allow("k", now)
	one.Return("k")
	if got := a.Spent(10, now); len(got) != 0 || hot() {
		t.Errorf("what was given back is told: %+v", got)
	}
}

// TestSharedIsBounded: a flood of keys is told in part, and kept in bounds.
func TestSharedIsBounded(t *testing.T) {
	a, b, one, two := sharing(1, 10, 50)
	now := time.Unix(1000, 0)
	for i := range 1000 {
		one.Allow(fmt.Sprint(i), now)
	}
	if n := len(one.spent); n > 50 {
		t.Errorf("%d keys wait to be told", n)
	}
	exchange(a, b, now)
	if one.Len() > 50 || two.Len() > 50 || two.Len() == 0 {
		t.Errorf("%d and %d keys", one.Len(), two.Len())
	}
	var none *Shared
	alone := none.Count("limit", NewBuckets(1, 1, 10))
	if !alone.Allow("k", now) || alone.Allow("k", now) {
		t.Error("a server that is alone")
	}
}
