package tlsx

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// Layer is the TLS handler of the connections of one server or dialer, which all share it. Server and Client make one. Add
// it before the decoder of what it carries.
type Layer struct {
	config *tls.Config
	pool   *executor.Pool
	o      Options
	client bool

	outcomes sync.Map // *eddy.Conn → *outcome, of a client's connections
	rate     bucket
	lines    bucket
	held     atomic.Uint64 // log lines
	now      func() int64  // for the rates: a clock of the layer, because loops of different groups count from different moments
	stats    counters
}

// Established is the event that follows a handshake through the pipeline, before any byte of the peer.
type Established struct{ State tls.ConnectionState }

// ConnectionState returns State, for handlers that do not import this package.
func (e *Established) ConnectionState() tls.ConnectionState { return e.State }

// HandshakeError is why a connection closed with CloseHandshakeFailed, as far as TLS knows.
type HandshakeError struct{ Err error }

// Error gives the cause.
func (e *HandshakeError) Error() string { return "tlsx: handshake: " + e.Err.Error() }

// Unwrap returns the cause: what crypto/tls said, ErrNotTLS, ErrAborted or a deadline.
func (e *HandshakeError) Unwrap() error { return e.Err }

// The errors that callers compare with errors.Is.
var (
	// ErrNotTLS: the first bytes of the peer are not those of TLS.
	ErrNotTLS = errors.New("the peer does not speak TLS")
	// ErrAborted: the peer left in the middle of the handshake.
	ErrAborted = errors.New("the peer left during the handshake")
	// ErrTruncated: the connection ended without the peer's close_notify, between two messages (RFC 8446 section 6.1). It
	// is the cause of a CloseIOError.
	ErrTruncated = errors.New("tlsx: the connection ended without close_notify")
	// ErrBusy: a bound of Options, or the pool's, refused the handshake. It is the cause of a CloseAdmissionRejected.
	ErrBusy = errors.New("tlsx: too many handshakes")
	// ErrFile: an eddy.File was written. The kernel sends a file as it is; read it on a pool and write the bytes.
	ErrFile = errors.New("tlsx: a File cannot be sent through TLS; write its bytes")
	// ErrEarly: more was written before the end of the handshake than Options.MaxEarly. It is an eddy.ErrBackpressure.
	ErrEarly = fmt.Errorf("tlsx: the handshake is not over: %w", eddy.ErrBackpressure)
)

// Stats are the numbers of a layer since it was made.
type Stats struct {
	Active      int64  // handshakes under way
	Established uint64 // handshakes that succeeded
	Resumed     uint64 // of those, by a ticket
	Failed      uint64 // that did not, those of the next two lines not counted
	NotTLS      uint64 // connections whose first bytes were not TLS
	Refused     uint64 // by MaxHandshakes, Rate or the pool
	Truncated   uint64 // connections that ended without close_notify
}

type counters struct {
	active                                                   atomic.Int64
	established, resumed, failed, notTLS, refused, truncated atomic.Uint64
}

// Stats returns the numbers. Any goroutine.
func (l *Layer) Stats() Stats {
	return Stats{
		Active:      l.stats.active.Load(),
		Established: l.stats.established.Load(),
		Resumed:     l.stats.resumed.Load(),
		Failed:      l.stats.failed.Load(),
		NotTLS:      l.stats.notTLS.Load(),
		Refused:     l.stats.refused.Load(),
		Truncated:   l.stats.truncated.Load(),
	}
}

// admit counts one more handshake, or says which bound refuses it.
func (l *Layer) admit() error {
	if n := l.stats.active.Add(1); n > int64(l.o.MaxHandshakes) {
		l.stats.active.Add(-1)
		return fmt.Errorf("%w: %d under way, limit %d", ErrBusy, n-1, l.o.MaxHandshakes)
	}
	if !l.rate.take(l.now()) {
		l.stats.active.Add(-1)
		return fmt.Errorf("%w: limit %d per second", ErrBusy, l.o.Rate)
	}
	return nil
}

// logFailure reports a handshake that failed, a bounded number per second.
func (l *Layer) logFailure(c *eddy.Conn, err error) {
	if !l.lines.take(l.now()) {
		l.held.Add(1)
		return
	}
	l.o.Logger.Info("tlsx: handshake failed", "peer", c.RemoteAddr(), "err", err, "held_back", l.held.Swap(0))
}
