package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"
)

// Errors of this package.
var (
	ErrBusy  = errors.New("auth: too many passwords are being checked")
	ErrWrong = errors.New("auth: wrong password")
)

// Params are the cost of argon2id (RFC 9106). The zero value means 64 MiB, 3 passes, 1 lane.
type Params struct {
	MemoryKiB uint32
	Passes    uint32
	Lanes     uint8
}

const (
	saltBytes = 16
	keyBytes  = 32
	maxKiB    = 1 << 20 // most memory of a stored hash, so that none costs more than 1 GiB

	largeKiB  = 16 << 10        // garbage of this size is not left to the collector's own time, which may be two minutes
	freeAfter = 5 * time.Second // so that many logins cost one collection
)

// Hasher hashes and checks passwords with argon2id. At most Running run at a time, because each takes MemoryKiB; a few
// more may wait. Any goroutine may call all methods, which block it.
type Hasher struct {
	params  Params
	running chan struct{}
	waiting chan struct{}
	decoy   string
	freeing atomic.Bool // memory is given back soon
}

// NewHasher returns a hasher that runs at most running hashes at once (default 4) and lets at most waiting more
// callers wait (default 16).
func NewHasher(p Params, running, waiting int) (*Hasher, error) {
	if p == (Params{}) {
		p = Params{MemoryKiB: 64 << 10, Passes: 3, Lanes: 1}
	}
	if p.MemoryKiB < 8 || p.MemoryKiB > maxKiB || p.Passes < 1 || p.Lanes < 1 {
		return nil, fmt.Errorf("auth: Params %+v are not valid: at least 8 KiB, at most %d KiB, one pass and one lane", p, maxKiB)
	}
	if running <= 0 {
		running = 4
	}
	if waiting <= 0 {
		waiting = 16
	}
	h := &Hasher{params: p, running: make(chan struct{}, running), waiting: make(chan struct{}, running+waiting)}
	h.decoy = h.phc(random(saltBytes), random(keyBytes)) // the hash of no password that anybody could find, made without cost
	return h, nil
}

// enter takes a place. It fails with ErrBusy at once when too many wait.
func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.waiting <- struct{}{}:
	default:
		return ErrBusy
	}
	select {
	case h.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-h.waiting
		return ctx.Err()
	}
}

// leave gives the place back. The system gets the memory of the hash back soon.
func (h *Hasher) leave() {
	<-h.running
	<-h.waiting
	if h.params.MemoryKiB >= largeKiB && h.freeing.CompareAndSwap(false, true) {
		time.AfterFunc(freeAfter, func() {
			h.freeing.Store(false)
			debug.FreeOSMemory()
		})
	}
}

// Hash returns the hash of a password in PHC form.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	return h.encode(password), nil
}

// Check returns nil if the password belongs to the hash, ErrWrong if not, and ErrBusy if it was not checked. An empty
// hash, for an account that does not exist, takes the same time and is always wrong.
func (h *Hasher) Check(ctx context.Context, hash, password string) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	missing := hash == ""
	if missing {
		hash = h.decoy
	}
	ok, err := verify(hash, password)
	if err != nil {
		return err
	}
	if !ok || missing {
		return ErrWrong
	}
	return nil
}

func (h *Hasher) encode(password string) string {
	salt := random(saltBytes)
	return h.phc(salt, argon2.IDKey([]byte(password), salt, h.params.Passes, h.params.MemoryKiB, h.params.Lanes, keyBytes))
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// phc returns a hash in PHC form.
func (h *Hasher) phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.params.MemoryKiB, h.params.Passes, h.params.Lanes, b64(salt), b64(key))
}

func verify(hash, password string) (bool, error) {
	fields := strings.Split(hash, "$")
	if len(fields) != 6 || fields[1] != "argon2id" {
		return false, errors.New("auth: stored hash is not argon2id in PHC form")
	}
	var version int
	var p Params
	if _, err := fmt.Sscanf(fields[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false, fmt.Errorf("auth: stored hash has argon2 version %.20q, want %d", fields[2], argon2.Version)
	}
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &p.MemoryKiB, &p.Passes, &p.Lanes); err != nil {
		return false, fmt.Errorf("auth: parameters of the stored hash: %w", err)
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(fields[4])
	key, err2 := base64.RawStdEncoding.DecodeString(fields[5])
	if err1 != nil || err2 != nil || len(key) < 16 || p.Passes < 1 || p.Lanes < 1 || p.MemoryKiB > maxKiB {
		return false, errors.New("auth: stored hash is damaged")
	}
	got := argon2.IDKey([]byte(password), salt, p.Passes, p.MemoryKiB, p.Lanes, uint32(len(key)))
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}
