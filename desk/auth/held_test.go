package auth

import (
	"fmt"
	"testing"
	"time"
)

// enter enters until it is refused, at most n times.
func enter(h *Held, key string, limit, n int, now time.Time) (leave []func()) {
	for range n {
		one, ok := h.Enter(key, limit, now)
		if !ok {
			break
		}
		leave = append(leave, one)
	}
	return leave
}

// holders are the same Held at two servers.
func holders() (a, b *Shared, one, two *Held) {
	secret := []byte("the same at both")
	a, b = NewShared(secret), NewShared(secret)
	return a, b, a.Hold("conns", NewHeld()), b.Hold("conns", NewHeld())
}

func TestHeld(t *testing.T) {
	h, now := NewHeld(), time.Unix(1000, 0)
	two := enter(h, "a", 2, 3, now)
	if len(two) != 2 || len(enter(h, "b", 2, 1, now)) != 1 || h.All() != 3 {
		t.Fatalf("%d of one key", len(two))
	}
	two[0]()
	two[0]() // the second time does nothing
	if again := enter(h, "a", 2, 2, now); len(again) != 1 {
		t.Errorf("%d after one has left", len(again))
	} else {
		again[0]()
	}
	two[1]()
	for _, free := range [][]func(){enter(h, "", 1, 3, now), enter(h, "a", 0, 3, now)} {
		if len(free) != 3 {
			t.Errorf("%d of what has no limit", len(free))
		}
		for _, leave := range free {
			leave()
		}
	}
	if len(h.own) != 1 {
		t.Errorf("%d keys", len(h.own))
	}
}

// TestHeldByTwoServers: two servers together hold no more than the limit and what they need not tell.
func TestHeldByTwoServers(t *testing.T) {
	a, b, one, two := holders()
	now := time.Unix(1000, 0)
	first := enter(one, "k", 100, 70, now)
	if len(first) != 50 {
		t.Errorf("%d are let in before the others are told", len(first))
	}
	if len(a.Hot()) != 1 {
		t.Error("the others are not told at once")
	}
	exchange(a, b, now)
	first = append(first, enter(one, "k", 100, 2, now)...)
	second := enter(two, "k", 100, 100, now)
	for range 20 {
		exchange(a, b, now)
		second = append(second, enter(two, "k", 100, 100, now)...)
		first = append(first, enter(one, "k", 100, 1, now)...)
	}
	if all := len(first) + len(second); all < 95 || all > 110 {
		t.Errorf("%d and %d are let in", len(first), len(second))
	}
	if len(enter(two, "other", 100, 1, now)) != 1 {
		t.Error("another key is refused")
	}
	for _, leave := range first {
		leave()
	}
	exchange(a, b, now)
	second = append(second, enter(two, "k", 100, 5, now)...)
	if len(second) < 40 || one.All() != 0 || len(one.own) != 0 {
		t.Errorf("%d after all at the other server have left; %d keys there", len(second), len(one.own))
	}
}

// TestHeldByOneThatIsGone: what a server holds is told again and again, and counts no more when that ends.
func TestHeldByOneThatIsGone(t *testing.T) {
	a, b, one, two := holders()
	now := time.Unix(1000, 0)
	for range 30 {
		enter(one, "k", 20, 1, now)
		exchange(a, b, now)
	}
	for range 10 {
		now = now.Add(heldAgain)
		exchange(a, b, now)
		if n := len(enter(two, "k", 20, 1, now)); n != 0 {
			t.Fatal("more than both may hold")
		}
	}
	now = now.Add(heldLife - 1)
	if len(enter(two, "k", 20, 1, now)) != 0 {
		t.Error("a server that is a little late counts no more")
	}
	now = now.Add(1)
	if len(enter(two, "k", 20, 1, now)) != 1 {
		t.Error("a server that is gone still counts")
	}
	b.Spent(10, now)
	if len(two.others) != 0 || two.heard != 0 {
		t.Errorf("kept of a server that is gone: %v, %d", two.others, two.heard)
	}
}

// TestHeldIsQuiet: little is not told, and what becomes little is told once.
func TestHeldIsQuiet(t *testing.T) {
	a, _, one, _ := holders()
	now := time.Unix(1000, 0)
	enter(one, "k", 100, 4, now)
	if told := a.Spent(10, now); len(told) != 0 || len(one.loud) != 0 {
		t.Errorf("4 of 100: %+v", told)
	}
	leave := enter(one, "k", 100, 2, now)
	if told := a.Spent(10, now); len(told) != 1 || told[0].N != 6 || told[0].Limit != "conns" || told[0].Key == "k" {
		t.Errorf("6 of 100: %+v", told)
	}
	if told := a.Spent(10, now); len(told) != 0 {
		t.Errorf("nothing new: %+v", told)
	}
	for _, l := range leave {
		l()
	}
	now = now.Add(heldAgain)
	if told := a.Spent(10, now); len(told) != 1 || told[0].N != 0 || len(one.loud) != 0 {
		t.Errorf("4 again: %+v", told)
	}
	if told := a.Spent(10, now.Add(heldAgain)); len(told) != 0 {
		t.Errorf("little: %+v", told)
	}
}

// TestHeldIsBounded: a flood of keys of others is kept in bounds.
func TestHeldIsBounded(t *testing.T) {
	a, b, one, two := holders()
	now := time.Unix(1000, 0)
	for i := range maxThrottled + 100 {
		one.Enter(fmt.Sprint(i), 1, now)
	}
	b.Spend(a.Spent(2*maxThrottled, now), now)
	if two.heard != maxThrottled || len(two.others) != maxThrottled {
		t.Errorf("%d of %d keys are kept", two.heard, len(two.others))
	}
}

// TestFailedLoginsOfTwoServers: who has failed at one server waits at the other one, and who has succeeded at neither.
func TestFailedLoginsOfTwoServers(t *testing.T) {
	secret := []byte("the same at both")
	a, b := NewShared(secret), NewShared(secret)
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	one, two := NewThrottle(clock, a), NewThrottle(clock, b)
	who := Attempt{Account: "lin", Address: "192.0.2.1"}
	for range freeAttempts {
		if wait := one.Begin(who); wait != 0 {
			t.Fatal(wait)
		}
	}
	if len(a.Hot()) != 1 {
		t.Error("the others are not told at once")
	}
	exchange(a, b, now)
	if wait := two.Begin(who); wait != firstDelay {
		t.Errorf("waits for %v", wait)
	}
	if wait := two.Begin(Attempt{Account: "lin", Address: "192.0.2.2"}); wait != 0 {
		t.Errorf("another address waits for %v", wait)
	}
	now = now.Add(firstDelay)
	if wait := two.Begin(who); wait != 0 {
		t.Fatal(wait)
	}
	two.Cancel(who)
	exchange(b, a, now)
	if wait := one.Begin(who); wait != 0 {
		t.Errorf("what was not decided counts: %v", wait)
	}
	one.Success(who)
	exchange(a, b, now)
	for i := range freeAttempts {
		if wait := two.Begin(who); wait != 0 {
			t.Errorf("attempt %d after a success waits for %v", i, wait)
		}
	}
}
