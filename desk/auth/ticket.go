package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// TicketLife is how long a ticket may be used.
const TicketLife = 30 * time.Second

const (
	maxSpent    = 10_000
	ticketFixed = 8 + sha256.Size // of the text in a ticket: when it expires, and the login
)

// Ticket is what a ticket says.
type Ticket struct {
	ID      [32]byte // of this ticket alone
	Agent   string
	Login   [32]byte // hash of the login that it was made for
	Expires time.Time
}

// Tickets are short-lived proofs of a login, each used once. An agent's page fetches one with its cookie and spends it in
// the first WebSocket message, so that no token ever is in a URL. A ticket is sealed, not stored: every server with the
// same key can open it. Any goroutine may call.
type Tickets struct {
	seal cipher.AEAD
	now  func() time.Time

	mu    sync.Mutex
	spent map[[32]byte]time.Time // here, and when they expire
}

// NewTickets returns tickets that are sealed with a key made of secret, and read the time from now.
func NewTickets(secret []byte, now func() time.Time) (*Tickets, error) {
	key := sha256.Sum256(append([]byte("tickets "), secret...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return &Tickets{seal: seal, now: now, spent: make(map[[32]byte]time.Time)}, err
}

// Issue returns a ticket for a login of an agent.
func (t *Tickets) Issue(agent string, login [32]byte) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(t.now().Add(TicketLife).UnixMilli()))
	text = append(append(text, login[:]...), agent...)
	return base64.RawURLEncoding.EncodeToString(t.seal.Seal(nil, nil, text, nil))
}

// Spend opens a ticket, once here. Whether another server has taken it only the store knows.
func (t *Tickets) Spend(ticket string) (k Ticket, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil {
		return k, false
	}
	text, err := t.seal.Open(nil, nil, raw, nil)
	if err != nil {
		return k, false
	}
	k.ID, k.Agent = sha256.Sum256(raw), string(text[ticketFixed:])
	k.Expires = time.UnixMilli(int64(binary.BigEndian.Uint64(text)))
	copy(k.Login[:], text[8:])
	if !t.first(k.ID, k.Expires) {
		return Ticket{}, false
	}
	return k, true
}

// first takes note of a ticket. It reports whether that is new, and can be remembered.
func (t *Tickets) first(id [32]byte, expires time.Time) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spent) >= maxSpent {
		for id, at := range t.spent {
			if !at.After(now) {
				delete(t.spent, id)
			}
		}
	}
	if _, again := t.spent[id]; again || len(t.spent) >= maxSpent || !expires.After(now) {
		return false
	}
	t.spent[id] = expires
	return true
}
