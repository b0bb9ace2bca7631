package httpserve

import (
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"
)

// Pipe is a bounded buffer between a connection's loop, which puts bytes in, and a goroutine that reads them. The bytes are
// the body of a request, the body of a response, or the input of a hijacked connection.
type Pipe struct {
	source Source
	taker  Taker
	limit  int

	mu       sync.Mutex
	changed  sync.Cond
	ring     []byte
	from, n  int
	received int64
	trailer  http.Header
	err      error // set when no more comes; io.EOF when everything has come
	closed   bool  // the reader wants no more
	held     bool  // the source was told to hold
	late     bool  // the reader's deadline has passed
	timer    *time.Timer
	due      uint // counts deadlines, so that the timer of a replaced deadline does nothing
}

// Source is where the bytes of a Pipe come from. An eddy.Conn is one. The Pipe calls it with its lock held, so that pauses
// and resumes arrive in order.
type Source interface {
	PauseRead()  // the Pipe is full
	ResumeRead() // half of it is free again, or the reader wants no more
}

// Taker is told how many bytes the reader has taken, or has thrown away by Close. The Pipe calls it with its lock held.
type Taker interface{ Took(n int) }

// Init prepares the Pipe for at most limit bytes. Without a source nobody calls Hold; taker may be nil.
func (p *Pipe) Init(source Source, taker Taker, limit int) {
	p.source, p.taker, p.limit = source, taker, limit
	p.changed.L = &p.mu
}

// Read implements io.Reader and blocks until there are bytes, the end, Close or the deadline.
func (p *Pipe) Read(to []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(to) > 0 && p.blocks() {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, http.ErrBodyReadAfterClose
	case p.late:
		return 0, os.ErrDeadlineExceeded
	case p.n == 0:
		return 0, p.err
	}
	return p.take(to), nil
}

// blocks reports whether a Read has to wait. p.mu is held.
func (p *Pipe) blocks() bool { return p.n == 0 && p.err == nil && !p.closed && !p.late }

// Ready reports whether a Read would return at once.
func (p *Pipe) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.blocks()
}

// take moves bytes to the reader. p.mu is held.
func (p *Pipe) take(to []byte) int {
	total := 0
	for total < len(to) && p.n > 0 {
		end := min(p.from+p.n, len(p.ring))
		k := copy(to[total:], p.ring[p.from:end])
		total += k
		p.n -= k
		p.from += k
		if p.from == len(p.ring) || p.n == 0 {
			p.from = 0
		}
	}
	p.took(total)
	if p.n <= p.limit/2 {
		p.release()
	}
	return total
}

// took tells the taker. p.mu is held.
func (p *Pipe) took(n int) {
	if p.taker != nil && n > 0 {
		p.taker.Took(n)
	}
}

// Close implements io.Closer and throws away the unread bytes and all that follow.
func (p *Pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.took(p.n)
	p.ring, p.from, p.n = nil, 0, 0
	p.stopTimer()
	p.release()
	p.changed.Broadcast()
	return nil
}

// release lets the source go on. p.mu is held.
func (p *Pipe) release() {
	if p.held {
		p.held = false
		p.source.ResumeRead()
	}
}

// Room returns how many bytes Put accepts now.
func (p *Pipe) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return math.MaxInt
	}
	return p.limit - p.n
}

// Put adds data, at most as many bytes as Room returned. The result is how many of them were thrown away because the reader
// wants no more.
func (p *Pipe) Put(data []byte) (dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received += int64(len(data))
	if p.closed || len(data) == 0 {
		return len(data)
	}
	if p.n+len(data) > len(p.ring) {
		p.grow(p.n + len(data))
	}
	to := (p.from + p.n) % len(p.ring)
	k := copy(p.ring[to:], data)
	copy(p.ring, data[k:])
	p.n += len(data)
	p.changed.Signal()
	return 0
}

// minRing is the smallest buffer of a pipe.
const minRing = 512

func (p *Pipe) grow(need int) {
	size := max(minRing, len(p.ring))
	for size < need {
		size *= 2
	}
	ring := make([]byte, min(size, p.limit))
	k := copy(ring, p.ring[p.from:min(p.from+p.n, len(p.ring))])
	copy(ring[k:], p.ring[:p.n-k])
	p.ring, p.from = ring, 0
}

// Hold tells the source to pause if the Pipe is still full, and reports whether it is. The loop calls Hold when Room has
// returned 0.
func (p *Pipe) Hold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.n < p.limit {
		return false
	}
	if !p.held {
		p.held = true
		p.source.PauseRead()
	}
	return true
}

// End records that no more comes, with io.EOF or the failure as the reason. The first reason stands.
func (p *Pipe) End(err error, trailer http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err, p.trailer = err, trailer
	}
	p.stopTimer()
	p.changed.Broadcast()
}

// SetDeadline makes reads fail with os.ErrDeadlineExceeded from t on. The zero time means no deadline.
func (p *Pipe) SetDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopTimer()
	p.late = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		p.late = true
		p.changed.Broadcast()
		return
	}
	due := p.due
	p.timer = time.AfterFunc(left, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.due == due {
			p.late = true
			p.changed.Broadcast()
		}
	})
}

// stopTimer cancels the running deadline. p.mu is held.
func (p *Pipe) stopTimer() {
	p.due++
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// Complete reports whether everything has come and was read.
func (p *Pipe) Complete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err == io.EOF && p.n == 0 //nolint:errorlint // our own mark, never wrapped
}

// Missing returns how many of length bytes have not come. For an unknown (negative) length it returns 0 when everything has
// come, else 1.
func (p *Pipe) Missing(length int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err == io.EOF: //nolint:errorlint // our own mark, never wrapped
		return 0
	case length < 0:
		return 1
	}
	return length - p.received
}

// Holds reports whether the source pauses because of the reader.
func (p *Pipe) Holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Trailer returns what End was given.
func (p *Pipe) Trailer() http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trailer
}

// Ended reports whether no more comes.
func (p *Pipe) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// Buffered returns how many bytes wait for the reader, and the memory that they are in.
func (p *Pipe) Buffered() (n, memory int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n, len(p.ring)
}
