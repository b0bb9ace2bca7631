package auth

import (
	"errors"
	"sync"
	"time"
)

// TicketLife is how long a ticket may be used.
const TicketLife = 30 * time.Second

const maxTickets = 10_000

// ErrTickets is returned when too many tickets are outstanding.
var ErrTickets = errors.New("auth: too many unused tickets")

// Tickets are short-lived proofs for a value, each used once. An agent's page fetches one with its cookie and spends it
// in the first WebSocket message, so that no token ever is in a URL. Any goroutine may call.
type Tickets[V any] struct {
	now func() time.Time

	mu   sync.Mutex
	open map[[32]byte]ticket[V]
}

type ticket[V any] struct {
	value   V
	expires time.Time
}

// NewTickets returns an empty set that reads the time from now.
func NewTickets[V any](now func() time.Time) *Tickets[V] {
	return &Tickets[V]{now: now, open: make(map[[32]byte]ticket[V])}
}

// Issue returns a ticket for v.
func (t *Tickets[V]) Issue(v V) (string, error) {
	token, hash := NewToken()
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxTickets {
		t.sweep(now)
	}
	if len(t.open) >= maxTickets {
		return "", ErrTickets
	}
	t.open[hash] = ticket[V]{v, now.Add(TicketLife)}
	return token, nil
}

// Spend returns the value of a ticket, once.
func (t *Tickets[V]) Spend(token string) (v V, ok bool) {
	hash := HashToken(token)
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.open[hash]
	delete(t.open, hash)
	if !ok || !k.expires.After(t.now()) {
		var none V
		return none, false
	}
	return k.value, true
}

func (t *Tickets[V]) sweep(now time.Time) {
	for h, k := range t.open {
		if !k.expires.After(now) {
			delete(t.open, h)
		}
	}
}
