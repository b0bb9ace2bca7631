package deskload

import (
	"math/rand/v2"
	"time"
)

// backoff says when a client connects again, as the pages do: full jitter, growing, reset after a connection that stayed
// up. A time that the server asks for comes before it.
type backoff struct {
	attempt int
	up      time.Time // when the connection was made, zero = there is none
	notYet  time.Time // the server has asked the client not to come before
}

const (
	backoffBase   = 500 * time.Millisecond
	backoffCap    = 30 * time.Second
	backoffStable = time.Minute
)

func (b *backoff) next(now time.Time) time.Duration {
	ceiling := min(backoffBase<<min(b.attempt, 10), backoffCap)
	b.attempt++
	return max(b.notYet.Sub(now), 0) + rand.N(ceiling)
}

func (b *backoff) welcomed(now time.Time) { b.up, b.notYet = now, time.Time{} }

func (b *backoff) lost(now time.Time) {
	if !b.up.IsZero() && now.Sub(b.up) >= backoffStable {
		b.attempt = 0
	}
	b.up = time.Time{}
}
