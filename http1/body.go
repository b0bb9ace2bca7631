package http1

import (
	"io"
	"math"
	"net/http"
	"sync"
)

// body is the bounded pipe between the loop, which puts in what the client
// sends, and the handler, which reads it as the request's Body. When it is full
// the connection's reads are paused until half of it is free again.
type body struct {
	ex    *exchange
	limit int

	mu       sync.Mutex
	changed  sync.Cond
	ring     []byte
	from, n  int
	received int64
	err      error // set when no more comes: io.EOF when the body is complete
	closed   bool  // the handler wants no more
	held     bool  // reads are paused because of this body
}

func newBody(ex *exchange, limit int) *body {
	b := &body{ex: ex, limit: limit}
	b.changed.L = &b.mu
	return b
}

// Read implements io.Reader for the handler: it blocks until there is something.
func (b *body) Read(p []byte) (int, error) {
	b.ex.sendContinue()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.n == 0 && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.n == 0:
		return 0, b.err
	}
	total := 0
	for total < len(p) && b.n > 0 {
		end := min(b.from+b.n, len(b.ring))
		k := copy(p[total:], b.ring[b.from:end])
		total += k
		b.n -= k
		b.from += k
		if b.from == len(b.ring) || b.n == 0 {
			b.from = 0
		}
	}
	if b.n <= b.limit/2 {
		b.release()
	}
	return total, nil
}

// Close implements io.Closer: what the handler did not read is thrown away.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.ring, b.from, b.n = nil, 0, 0
	b.release()
	b.changed.Broadcast()
	return nil
}

// release lets the connection read again. b.mu is held, so that a pause and its
// end reach the connection in this order.
func (b *body) release() {
	if b.held {
		b.held = false
		b.ex.conn.ResumeRead()
	}
}

// room returns how many bytes put takes now.
func (b *body) room() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return math.MaxInt
	}
	return b.limit - b.n
}

// put adds data, at most what room returned, and reports how many bytes of it
// were thrown away because the handler wants no more.
func (b *body) put(data []byte) (dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received += int64(len(data))
	if b.closed || len(data) == 0 {
		return len(data)
	}
	if b.n+len(data) > len(b.ring) {
		b.grow(b.n + len(data))
	}
	to := (b.from + b.n) % len(b.ring)
	k := copy(b.ring[to:], data)
	copy(b.ring, data[k:])
	b.n += len(data)
	b.changed.Signal()
	return 0
}

// minRing is the smallest buffer of a body.
const minRing = 2 << 10

func (b *body) grow(need int) {
	size := max(minRing, len(b.ring))
	for size < need {
		size *= 2
	}
	ring := make([]byte, min(size, b.limit))
	k := copy(ring, b.ring[b.from:min(b.from+b.n, len(b.ring))])
	copy(ring[k:], b.ring[:b.n-k])
	b.ring, b.from = ring, 0
}

// hold pauses the connection's reads if the pipe is full still. The loop calls
// it when there is no room.
func (b *body) hold() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.n < b.limit {
		return false
	}
	if !b.held {
		b.held = true
		b.ex.conn.PauseRead()
	}
	return true
}

// end says that no more comes and why: io.EOF or what went wrong. The first
// word stands.
func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.changed.Broadcast()
}

// missing returns how many bytes of a body of the given length have not come,
// for an unknown length 0 when it is complete and 1 otherwise.
func (b *body) missing(length int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err == io.EOF: //nolint:errorlint // our own mark, never wrapped
		return 0
	case length < 0:
		return 1
	}
	return length - b.received
}

// holds reports whether the handler keeps the client from sending now.
func (b *body) holds() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
