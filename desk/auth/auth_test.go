package auth

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cheap = Params{MemoryKiB: 8, Passes: 1, Lanes: 1}

func hasher(t *testing.T, p Params, running, waiting int) *Hasher {
	t.Helper()
	h, err := NewHasher(p, running, waiting)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPasswordHash(t *testing.T) {
	h := hasher(t, cheap, 0, 0)
	hash, err := h.Hash(t.Context(), "correct horse")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Fatalf("%q, %v", hash, err)
	}
	if again, _ := h.Hash(t.Context(), "correct horse"); again == hash {
		t.Error("two hashes of one password are equal: no salt")
	}
	for name, c := range map[string]struct {
		hash, password string
		want           error
	}{
		"right":        {hash, "correct horse", nil},
		"wrong":        {hash, "wrong horse", ErrWrong},
		"empty":        {hash, "", ErrWrong},
		"no account":   {"", "correct horse", ErrWrong},
		"decoy's word": {"", "", ErrWrong},
	} {
		if err := h.Check(t.Context(), c.hash, c.password); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, bad := range []string{"plain", "$argon2i$v=19$m=8,t=1,p=1$AA$AA", "$argon2id$v=18$m=8,t=1,p=1$AA$AA", "$argon2id$v=19$m=x$AA$AA",
		"$argon2id$v=19$m=99999999,t=1,p=1$AAAA$" + strings.Repeat("A", 43), "$argon2id$v=19$m=8,t=0,p=1$AAAA$" + strings.Repeat("A", 43)} {
		if err := h.Check(t.Context(), bad, "x"); err == nil || errors.Is(err, ErrWrong) {
			t.Errorf("damaged hash %q: %v", bad, err)
		}
	}
}

func TestDefaultParamsAreThoseOfTheDesign(t *testing.T) {
	const begins = "$argon2id$v=19$m=65536,t=3,p=1$"
	h := hasher(t, Params{}, 0, 0)
	hash, err := h.Hash(t.Context(), "x")
	if err != nil || !strings.HasPrefix(hash, begins) {
		t.Fatalf("%q, %v", hash, err)
	}
	if !strings.HasPrefix(h.decoy, begins) || len(h.decoy) != len(hash) {
		t.Errorf("an account that does not exist costs another time: %q", h.decoy)
	}
}

// The memory of a hash does not wait for the collector's own time.
func TestHasherFreesItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hasher(t, Params{MemoryKiB: 64 << 10, Passes: 1, Lanes: 1}, 0, 0)
		held := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc >> 10
		}
		for range 2 {
			if _, err := h.Hash(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := held(); n < 64<<10 {
				t.Logf("the collector has come of its own accord: %d KiB", n)
			}
			time.Sleep(freeAfter)
			synctest.Wait()
			if n := held(); n >= 64<<10 {
				t.Errorf("%d KiB are held", n)
			}
		}
	})
}

func TestHasherIsBounded(t *testing.T) {
	h := hasher(t, cheap, 1, 1)
	if err := h.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := h.Hash(ctx, "waits"); second <- err }()
	testkit.Eventually(t, "the second to wait", func() bool { return len(h.waiting) == 2 })
	if _, err := h.Hash(t.Context(), "third"); !errors.Is(err, ErrBusy) {
		t.Errorf("third: %v", err)
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	h.leave()
	if _, err := h.Hash(t.Context(), "fourth"); err != nil {
		t.Error(err)
	}
}

func TestParamsAreChecked(t *testing.T) {
	for _, p := range []Params{{MemoryKiB: 1, Passes: 1, Lanes: 1}, {MemoryKiB: 8, Lanes: 1}, {MemoryKiB: 8, Passes: 1}, {MemoryKiB: 1 << 30, Passes: 1, Lanes: 1}} {
		if _, err := NewHasher(p, 0, 0); err == nil {
			t.Errorf("%+v accepted", p)
		}
	}
}

func TestTokens(t *testing.T) {
	a, hash := NewToken()
	b, _ := NewToken()
	if a == b || len(a) != 43 || HashToken(a) != hash {
		t.Errorf("tokens %q, %q", a, b)
	}
	if p, q := NewPassword(), NewPassword(); p == q || len(p) != 20 || strings.ContainsAny(p, "lo01") {
		t.Errorf("passwords %q, %q", p, q)
	}
}

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); c.t = c.t.Add(d); c.mu.Unlock() }

func TestTicketsAreSpentOnce(t *testing.T) {
	c := &clock{t: time.Unix(1e9, 0)}
	made := func(secret string) *Tickets {
		k, err := NewTickets([]byte(secret), c.now)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	tickets, other := made("a"), made("a")
	login := [32]byte{7}
	a := tickets.Issue("lin", login)
	k, ok := tickets.Spend(a)
	if !ok || k.Agent != "lin" || k.Login != login || !k.Expires.Equal(c.now().Add(TicketLife)) {
		t.Fatal(k, ok)
	}
	if _, ok := tickets.Spend(a); ok {
		t.Error("spent twice")
	}
	if same, ok := other.Spend(a); !ok || same != k {
		t.Errorf("another server with the same secret: %+v %v", same, ok)
	}
	b := tickets.Issue("lin", login)
	if a == b {
		t.Error("two tickets are the same")
	}
	if _, ok := made("b").Spend(b); ok {
		t.Error("another secret opens it")
	}
	last := b[len(b)-1:]
	for _, bad := range []string{"", "x", "=", b[:len(b)-4], "A" + b, b + "A", b[1:], b + last, strings.ToUpper(b)} {
		if k, ok := tickets.Spend(bad); ok {
			t.Errorf("%q opens as %+v", bad, k)
		}
	}
	c.advance(TicketLife)
	if k, ok := tickets.Spend(b); ok || k != (Ticket{}) {
		t.Error("spent after its life")
	}
	for range maxSpent - 1 { // and the first one
		if _, ok := tickets.Spend(tickets.Issue("x", login)); !ok {
			t.Fatal("refused")
		}
	}
	if _, ok := tickets.Spend(tickets.Issue("x", login)); !ok {
		t.Error("the one that has expired is remembered")
	}
	if _, ok := tickets.Spend(tickets.Issue("x", login)); ok {
		t.Error("more are taken than can be remembered")
	}
	c.advance(TicketLife)
	if _, ok := tickets.Spend(tickets.Issue("x", login)); !ok {
		t.Error("those that have expired are remembered")
	}
}
