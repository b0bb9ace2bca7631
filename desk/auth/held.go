package auth

import (
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	heldPart  = 0.05             // of a limit: others are told what is held of one key from there on, and each change by as much
	heldAgain = 5 * time.Second  // until they are told again
	heldLife  = 15 * time.Second // after which a server that has told nothing again holds nothing, because it is gone
)

// Held counts what is held at once by key, such as the connections of an address, up to a limit. Any goroutine may call its
// methods.
type Held struct {
	shared *Shared // nil = it counts for this server alone

	mu     sync.Mutex
	own    map[string]*holding         // of which there is at least one, or others think so
	loud   map[string]*holding         // of which the others know, or are to know
	others map[string]map[string]heard // by key and server, at most maxThrottled
	heard  int
}

// holding is what this server holds of one key.
type holding struct {
	n    int
	part int // that others need not know
	told int // what the others know
	at   time.Time
}

// heard is what another server holds of one key.
type heard struct {
	n  int
	at time.Time
}

// NewHeld returns a Held that holds nothing.
func NewHeld() *Held {
	return &Held{own: make(map[string]*holding), loud: make(map[string]*holding), others: make(map[string]map[string]heard)}
}

// Enter counts one more of a key, unless there are limit already. The key "" is not counted; limit 0 means no limit. A key
// always has the same limit. leave takes the count back, once.
func (h *Held) Enter(key string, limit int, now time.Time) (leave func(), ok bool) {
	if key == "" || limit <= 0 {
		return func() {}, true
	}
	key = h.shared.id(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.own[key]
	if k == nil {
		k = &holding{part: max(1, int(heldPart*float64(limit)))}
	}
	if !h.room(key, k, limit, now) {
		return nil, false
	}
	k.n++
	h.own[key] = k
	h.changed(key, k)
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		k.n--
		h.changed(key, k)
	}), true
}

// All returns how many this server holds of all keys.
func (h *Held) All() (all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.own {
		all += k.n
	}
	return all
}

// room reports whether one more may be held. From half the limit on a server takes no more than a part between two times that
// it tells the others: they may be doing the same. h.mu is held.
func (h *Held) room(key string, k *holding, limit int, now time.Time) bool {
	all := k.n
	for _, o := range h.others[key] {
		if now.Sub(o.at) < heldLife {
			all += o.n
		}
	}
	if h.shared == nil || 2*all < limit {
		return all < limit
	}
	return all < limit && k.n-k.told < k.part
}

// changed takes note of a new number. h.mu is held.
func (h *Held) changed(key string, k *holding) {
	if k.n == 0 && k.told == 0 {
		delete(h.own, key)
	}
	if h.shared == nil {
		return
	}
	switch {
	case k.told == 0 && k.n < k.part:
		delete(h.loud, key)
	case k.n-k.told >= k.part:
		h.shared.hurry()
		fallthrough
	default:
		h.loud[key] = k
	}
}

// rows implements counter. What has become less than a part is told as nothing.
func (h *Held) rows(n int, now time.Time) (all []store.Spent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	for key, k := range h.loud {
		if len(all) == n {
			break
		}
		if max(k.n-k.told, k.told-k.n) < k.part && now.Sub(k.at) < heldAgain {
			continue
		}
		k.told, k.at = k.n, now
		if k.n < k.part {
			k.told = 0
		}
		all = append(all, store.Spent{Key: key, N: float64(k.told)})
		h.changed(key, k)
	}
	return all
}

// hear implements counter.
func (h *Held) hear(told *store.Spent, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	servers := h.others[told.Key]
	if _, known := servers[told.Node]; known {
		h.heard--
	} else if h.heard >= maxThrottled {
		return
	}
	if told.N < 1 {
		delete(servers, told.Node)
		return
	}
	if servers == nil {
		servers = make(map[string]heard)
		h.others[told.Key] = servers
	}
	servers[told.Node] = heard{int(told.N), now}
	h.heard++
}

// forget drops what servers hold that are gone. h.mu is held.
func (h *Held) forget(now time.Time) {
	for key, servers := range h.others {
		for server, o := range servers {
			if now.Sub(o.at) >= heldLife {
				delete(servers, server)
				h.heard--
			}
		}
		if len(servers) == 0 {
			delete(h.others, key)
		}
	}
}
