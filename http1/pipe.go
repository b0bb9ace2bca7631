package http1

import (
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
)

// pipe is a bounded buffer between a connection's loop, which puts bytes in, and a goroutine that reads them. The bytes are
// the body of a request, the body of a response, or the input of a hijacked connection. When the pipe is full the
// connection's reads pause until half of it is free again.
type pipe struct {
	conn  *eddy.Conn
	limit int

	mu       sync.Mutex
	changed  sync.Cond
	ring     []byte
	from, n  int
	received int64
	trailer  http.Header
	err      error // set when no more comes; io.EOF when everything has come
	closed   bool  // the reader wants no more
	held     bool  // the connection's reads are paused because of this pipe
	late     bool  // the reader's deadline has passed
	timer    *time.Timer
	due      uint // counts deadlines, so that the timer of a replaced deadline does nothing
}

func (p *pipe) init(conn *eddy.Conn, limit int) {
	p.conn, p.limit = conn, limit
	p.changed.L = &p.mu
}

// Read implements io.Reader and blocks until there are bytes, the end, Close or the deadline.
func (p *pipe) Read(to []byte) (int, error) {
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
func (p *pipe) blocks() bool { return p.n == 0 && p.err == nil && !p.closed && !p.late }

// ready reports whether a Read would return at once.
func (p *pipe) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.blocks()
}

// take moves bytes to the reader. p.mu is held.
func (p *pipe) take(to []byte) int {
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
	if p.n <= p.limit/2 {
		p.release()
	}
	return total
}

// Close implements io.Closer and throws away the unread bytes and all that follow.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.ring, p.from, p.n = nil, 0, 0
	p.stopTimer()
	p.release()
	p.changed.Broadcast()
	return nil
}

// release lets the connection read again. p.mu is held, so that pauses and resumes reach the connection in order.
func (p *pipe) release() {
	if p.held {
		p.held = false
		p.conn.ResumeRead()
	}
}

// room returns how many bytes put accepts now.
func (p *pipe) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return math.MaxInt
	}
	return p.limit - p.n
}

// put adds data, at most as many bytes as room returned. The result is how many of them were thrown away because the reader
// wants no more.
func (p *pipe) put(data []byte) (dropped int) {
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
const minRing = 2 << 10

func (p *pipe) grow(need int) {
	size := max(minRing, len(p.ring))
	for size < need {
		size *= 2
	}
	ring := make([]byte, min(size, p.limit))
	k := copy(ring, p.ring[p.from:min(p.from+p.n, len(p.ring))])
	copy(ring[k:], p.ring[:p.n-k])
	p.ring, p.from = ring, 0
}

// hold pauses the connection's reads if the pipe is still full, and reports whether it is. The loop calls hold when room
// has returned 0.
func (p *pipe) hold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.n < p.limit {
		return false
	}
	if !p.held {
		p.held = true
		p.conn.PauseRead()
	}
	return true
}

// end records that no more comes, with io.EOF or the failure as the reason. The first reason stands.
func (p *pipe) end(err error, trailer http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err, p.trailer = err, trailer
	}
	p.stopTimer()
	p.changed.Broadcast()
}

// setDeadline makes reads fail with os.ErrDeadlineExceeded from t on. The zero time means no deadline.
func (p *pipe) setDeadline(t time.Time) {
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
func (p *pipe) stopTimer() {
	p.due++
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// complete reports whether everything has come and was read.
func (p *pipe) complete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err == io.EOF && p.n == 0 //nolint:errorlint // our own mark, never wrapped
}

// missing returns how many of length bytes have not come. For an unknown (negative) length it returns 0 when everything has
// come, else 1.
func (p *pipe) missing(length int64) int64 {
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

// holds reports whether the connection's reads are paused because of the reader.
func (p *pipe) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
