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

// pipe is bounded memory between a connection's loop, which puts bytes in, and a goroutine that reads them: the body of a
// request, the body of a response, or what a hijacked connection receives. When it is full the connection's reads are
// paused until half of it is free again.
type pipe struct {
	conn  *eddy.Conn
	limit int

	mu       sync.Mutex
	changed  sync.Cond
	ring     []byte
	from, n  int
	received int64
	trailer  http.Header
	err      error // set when no more comes: io.EOF when everything is there
	closed   bool  // the reader wants no more
	held     bool  // reads are paused because of this pipe
	late     bool  // the reader's deadline has passed
	timer    *time.Timer
	due      uint // counts deadlines, so that one that was replaced does nothing
}

func (p *pipe) init(conn *eddy.Conn, limit int) {
	p.conn, p.limit = conn, limit
	p.changed.L = &p.mu
}

// Read implements io.Reader: it blocks until there is something.
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

// ready reports whether a Read has something to say now.
func (p *pipe) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.blocks()
}

// take moves bytes out. p.mu is held.
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

// Close implements io.Closer: what was not read is thrown away.
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

// release lets the connection read again. p.mu is held, so that a pause and its end reach the connection in this order.
func (p *pipe) release() {
	if p.held {
		p.held = false
		p.conn.ResumeRead()
	}
}

// room returns how many bytes put takes now.
func (p *pipe) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return math.MaxInt
	}
	return p.limit - p.n
}

// put adds data, at most what room returned, and reports how many bytes of it were thrown away because the reader wants
// no more.
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

// hold pauses the connection's reads if the pipe is full still. The loop calls it when there is no room.
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

// end says that no more comes and why: io.EOF or what went wrong. The first word stands.
func (p *pipe) end(err error, trailer http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err, p.trailer = err, trailer
	}
	p.stopTimer()
	p.changed.Broadcast()
}

// setDeadline makes reads fail with os.ErrDeadlineExceeded from t on; the zero time is none.
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

// stopTimer ends the deadline that runs. p.mu is held.
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

// missing returns how many bytes of the given number have not come, for an unknown number 0 when all have and 1
// otherwise.
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

// holds reports whether the reader keeps the peer from sending now.
func (p *pipe) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
