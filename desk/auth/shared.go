package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Shared lets the Buckets of several servers count together: what one has spent, the others spend as well, soon after. Others
// know keys by digests only. Any goroutine may call its methods. A nil *Shared is that of a server that is alone.
type Shared struct {
	secret []byte
	hot    chan struct{} // holds one element while much has been spent that the others do not know

	mu  sync.Mutex
	all map[string]*Buckets
}

// hotPart is the part of a burst that a server spends of one key before the others are told at once.
const hotPart = 0.1

// NewShared returns a Shared. The servers that share have the same secret.
func NewShared(secret []byte) *Shared {
	return &Shared{secret: secret, hot: make(chan struct{}, 1), all: make(map[string]*Buckets)}
}

// Count makes new Buckets count together with those of the same name at other servers, and returns them.
func (s *Shared) Count(name string, b *Buckets) *Buckets {
	if s == nil {
		return b
	}
	b.shared, b.spent = s, make(map[string]float64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[name] = b
	return b
}

// Hot returns a channel that has an element when the others should be told at once.
func (s *Shared) Hot() <-chan struct{} { return s.hot }

// Spent returns what has been spent since it was called last, at most limit rows; what is left comes with the next call.
func (s *Shared) Spent(limit int) (all []store.Spent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, b := range s.all {
		b.mu.Lock()
		for key, n := range b.spent {
			if len(all) == limit {
				break
			}
			delete(b.spent, key)
			if n != 0 {
				all = append(all, store.Spent{Limit: name, Key: key, N: n})
			}
		}
		b.mu.Unlock()
	}
	return all
}

// Spend spends what other servers have spent.
func (s *Shared) Spend(all []store.Spent, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if b := s.all[all[i].Limit]; b != nil {
			b.spend(all[i].Key, all[i].N, now)
		}
	}
}

// digest is what others know of a key.
func (s *Shared) digest(key string) string {
	m := hmac.New(sha256.New, s.secret)
	_, _ = m.Write([]byte(key)) // never fails
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// id returns the key of a bucket.
func (b *Buckets) id(key string) string {
	if b.shared == nil {
		return key
	}
	return b.shared.digest(key)
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
		select {
		case b.shared.hot <- struct{}{}:
		default:
		}
	}
}

// spend spends tokens without asking. A bucket may owe as many as it holds.
func (b *Buckets) spend(id string, n float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(id, now)
	k.tokens = max(min(k.tokens-n, b.burst), -b.burst)
	b.keys[id] = k
}
