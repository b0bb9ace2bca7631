package auth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// from returns an attempt on an account from an address, on an unknown device.
func from(account string, address any) Attempt {
	return Attempt{Account: account, Address: fmt.Sprint(address)}
}

// fail makes attempts that may be made at once.
func fail(t *testing.T, th *Throttle, n int, attempt func(i int) Attempt) {
	t.Helper()
	for i := range n {
		if w := th.Begin(attempt(i)); w != 0 {
			t.Fatalf("attempt %d has to wait %v", i, w)
		}
	}
}

// Failures of one account from one address, or of one device, are delayed twice as long each time, and a success forgives
// them.
func TestThrottleDelayGrows(t *testing.T) {
	for name, a := range map[string]Attempt{"an address": from("lin", "1.2.3.4"), "a device": {Account: "lin", Address: "1.2.3.4", Device: "d"}} {
		t.Run(name, func(t *testing.T) {
			c := &clock{t: time.Unix(1e9, 0)}
			th := NewThrottle(c.now, nil)
			fail(t, th, freeAttempts, func(int) Attempt { return a })
			for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
				want *= time.Second
				if w := th.Begin(a); w != want {
					t.Fatalf("round %d: wait %v, want %v", i, w, want)
				}
				c.advance(want - time.Millisecond)
				if w := th.Begin(a); w != time.Millisecond {
					t.Fatalf("round %d: wait %v", i, w)
				}
				c.advance(time.Millisecond)
				fail(t, th, 1, func(int) Attempt { return a })
			}
			c.advance(longestDelay)
			fail(t, th, 1, func(int) Attempt { return a })
			th.Success(a)
			fail(t, th, freeAttempts, func(int) Attempt { return a })
			c.advance(forgetAfter + time.Second)
			fail(t, th, freeAttempts, func(int) Attempt { return a })
		})
	}
}

// What others do elsewhere delays nobody until the account's allowance is used up, and never a known device.
func TestThrottleOthersDoNotLock(t *testing.T) {
	c := &clock{t: time.Unix(1e9, 0)}
	th := NewThrottle(c.now, nil)
	fail(t, th, 6, func(i int) Attempt { return from("lin", i) })
	if w := th.Begin(from("lin", "home")); w != 0 {
		t.Fatalf("after six guesses elsewhere: wait %v", w)
	}
	for i := range 24 * 60 { // a guess a minute, each from an address of its own, for a day
		c.advance(time.Minute)
		fail(t, th, 1, func(int) Attempt { return from("lin", i) })
	}
	fail(t, th, 1, func(int) Attempt { return from("lin", "work") })
	th.Success(from("lin", "work"))

	granted := 0
	flood := func(name any) {
		for i := 0; granted <= 10*perAccount && th.Begin(from("lin", fmt.Sprint(name, i))) == 0; i++ {
			granted++
		}
	}
	flood("at once")
	if granted == 0 || granted > perAccount {
		t.Fatalf("%d guesses at once from as many addresses", granted)
	}
	if w := th.Begin(from("lin", "a new phone")); w <= 0 || w > accountEvery {
		t.Errorf("an unknown device waits %v", w)
	}
	fail(t, th, 1, func(int) Attempt { return Attempt{Account: "lin", Address: "work", Device: "known"} })
	fail(t, th, 1, func(int) Attempt { return from("other", "work") })
	for i := range 60 { // an hour of guesses as fast as they may be made
		flood(i)
		c.advance(time.Minute)
	}
	if most := perAccount + int(time.Hour/accountEvery); granted > most {
		t.Errorf("%d guesses in an hour, at most %d", granted, most)
	}
}

// An address has an allowance for all accounts, and a refused attempt takes nothing from anybody.
func TestThrottlePerAddress(t *testing.T) {
	c := &clock{t: time.Unix(1e9, 0)}
	th := NewThrottle(c.now, nil)
	fail(t, th, perAddress, func(i int) Attempt { return from(fmt.Sprint("account", i), "1.2.3.4") })
	for range 2 * perAccount {
		if w := th.Begin(from("lin", "1.2.3.4")); w != addressEvery {
			t.Fatalf("wait %v, want %v", w, addressEvery)
		}
	}
	fail(t, th, freeAttempts, func(int) Attempt { return from("lin", "5.6.7.8") })
	for range 2 * perAccount {
		th.Begin(from("lin", "5.6.7.8")) // refused because of the pair
	}
	fail(t, th, perAccount-freeAttempts, func(i int) Attempt { return from("lin", i) })
	fail(t, th, perAddress-freeAttempts, func(i int) Attempt { return from(fmt.Sprint("account", i), "5.6.7.8") })
	for i := range 60 { // one guess a minute keeps nobody out at the same address
		c.advance(time.Minute)
		fail(t, th, 1, func(int) Attempt { return from(fmt.Sprint("account", i%8), "1.2.3.4") })
	}
	fail(t, th, 1, func(int) Attempt { return from("lin", "1.2.3.4") })
}

func TestThrottleCancelTakesBack(t *testing.T) {
	th := NewThrottle((&clock{t: time.Unix(1e9, 0)}).now, nil)
	for _, a := range []Attempt{from("lin", "1.2.3.4"), {Device: "d"}} {
		for i := range 2 * perAccount {
			if w := th.Begin(a); w != 0 {
				t.Fatalf("attempt %d waits %v", i, w)
			}
			th.Cancel(a)
		}
	}
	th.Cancel(from("nobody", "nowhere"))
}

// Names and addresses without end do not fill the memory, and lock nobody out.
func TestThrottleIsBounded(t *testing.T) {
	th := NewThrottle((&clock{t: time.Unix(1e9, 0)}).now, nil)
	long := strings.Repeat("x", 10_000)
	for i := range maxThrottled + 1 {
		fail(t, th, 1, func(int) Attempt { return from(fmt.Sprint(i, long), i) })
	}
	if len(th.keys) > maxThrottled || th.accounts.Len() > maxThrottled || th.addresses.Len() > maxThrottled {
		t.Errorf("%d, %d, %d keys", len(th.keys), th.accounts.Len(), th.addresses.Len())
	}
	for k := range th.keys {
		if len(k) > 2*maxAccountKey {
			t.Fatalf("a key of %d bytes", len(k))
		}
	}
	fail(t, th, freeAttempts, func(int) Attempt { return from("lin", "home") })
}

func TestDevices(t *testing.T) {
	d := NewDevices([]byte("a key"))
	v := d.New("lin")
	id, name := d.Known("lin", v), d.Name("lin")
	if id == "" || d.Known("lin", d.New("lin")) == id || d.Name("lin") != name || d.Name("ada") == name {
		t.Errorf("%q", id)
	}
	b, err := base64.RawURLEncoding.DecodeString(v)
	if err != nil {
		t.Fatal(err)
	}
	other := func(at int) string {
		c := append([]byte{}, b...)
		c[at] ^= 1
		return base64.RawURLEncoding.EncodeToString(c)
	}
	for name, c := range map[string]struct{ account, value string }{
		"another account": {"ada", v}, "another device": {"lin", other(0)}, "another signature": {"lin", other(len(b) - 1)}, "nothing": {"lin", ""},
		"short": {"lin", v[:40]}, "no base64": {"lin", "*" + v}, "another key": {"lin", NewDevices([]byte("another")).New("lin")},
	} {
		if d.Known(c.account, c.value) != "" {
			t.Errorf("%s: known", name)
		}
	}
}
