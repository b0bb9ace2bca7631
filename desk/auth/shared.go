package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Shared lets the limits of several servers count together: what one has spent or holds, the others count as well, soon
// after. Others know keys by digests only. Any goroutine may call its methods. A nil *Shared is that of a server that is alone.
type Shared struct {
	secret []byte
	hot    chan struct{} // holds one element while there is much that the others do not know

	mu  sync.Mutex
	all map[string]counter
}

// counter is a limit that counts together with those of the same name at other servers.
type counter interface {
	// rows returns what the others are to be told now, at most n rows without the name of the limit. What is left comes with
	// the next call.
	rows(n int, now time.Time) []store.Spent
	// hear counts what another server has told.
	hear(told *store.Spent, now time.Time)
}

// hotPart is the part of a burst that a server spends of one key before the others are told at once.
const hotPart = 0.1

// NewShared returns a Shared. The servers that share have the same secret.
func NewShared(secret []byte) *Shared {
	return &Shared{secret: secret, hot: make(chan struct{}, 1), all: make(map[string]counter)}
}

// Count makes new Buckets count together with those of the same name at other servers, and returns them.
func (s *Shared) Count(name string, b *Buckets) *Buckets {
	if s != nil {
		b.shared, b.spent = s, make(map[string]float64)
		s.join(name, b)
	}
	return b
}

// Hold makes a new Held count together with those of the same name at other servers, and returns it.
func (s *Shared) Hold(name string, h *Held) *Held {
	if s != nil {
		h.shared = s
		s.join(name, h)
	}
	return h
}

func (s *Shared) join(name string, c counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[name] = c
}

// Hot returns a channel that has an element when the others should be told at once.
func (s *Shared) Hot() <-chan struct{} { return s.hot }

// Spent returns what the others are to be told now, at most limit rows; what is left comes with the next call.
func (s *Shared) Spent(limit int, now time.Time) (all []store.Spent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.all {
		for _, row := range c.rows(limit-len(all), now) {
			row.Limit = name
			all = append(all, row)
		}
	}
	return all
}

// Spend counts what other servers have told.
func (s *Shared) Spend(all []store.Spent, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if c := s.all[all[i].Limit]; c != nil {
			c.hear(&all[i], now)
		}
	}
}

// hurry lets the others be told at once.
func (s *Shared) hurry() {
	select {
	case s.hot <- struct{}{}:
	default:
	}
}

// id returns what a key is known by: of a server that is alone, the key itself.
func (s *Shared) id(key string) string {
	if s == nil {
		return key
	}
	return s.digest(key)
}

// digest is what others know of a key.
func (s *Shared) digest(key string) string {
	m := hmac.New(sha256.New, s.secret)
	_, _ = m.Write([]byte(key)) // never fails
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// tell notes what the others are to be told. b.mu is held.
func (b *Buckets) tell(id string, n float64) {
	if b.shared == nil {
		return
	}
	if _, known := b.spent[id]; !known && len(b.spent) >= b.max {
		return
	}
	b.spent[id] += n
	if b.spent[id] >= hotPart*b.burst {
		b.shared.hurry()
	}
}

// rows implements counter.
func (b *Buckets) rows(n int, _ time.Time) []store.Spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return drain(b.spent, n)
}

// drain takes at most n rows out of what the others are not told yet.
func drain(spent map[string]float64, n int) (all []store.Spent) {
	for key, some := range spent {
		if len(all) == n {
			break
		}
		delete(spent, key)
		if some != 0 {
			all = append(all, store.Spent{Key: key, N: some})
		}
	}
	return all
}

// hear implements counter. It spends tokens without asking. A bucket may owe as many as it holds.
func (b *Buckets) hear(told *store.Spent, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(told.Key, now)
	k.tokens = max(min(k.tokens-told.N, b.burst), -b.burst)
	b.keys[told.Key] = k
}
