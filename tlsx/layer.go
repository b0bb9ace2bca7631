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

// Layer is the TLS handler that all connections of one server or dialer share. Make it with Server or Client. Add it
// before the decoder.
type Layer struct {
	config *tls.Config
	pool   *executor.Pool
	o      Options
	client bool

	outcomes sync.Map // *eddy.Conn → *outcome, of a client's connections
	rate     bucket
	lines    bucket
	held     atomic.Uint64 // log lines held back
	now      func() int64  // for the rates: a clock of the layer, because loops of different groups count from different moments
	stats    counters
}

// Established is the event that passes through the pipeline after the handshake, before any byte of the peer.
type Established struct{ State tls.ConnectionState }

// ConnectionState returns State, for handlers that do not import this package.
func (e *Established) ConnectionState() tls.ConnectionState { return e.State }

// HandshakeError says why a TLS handshake failed. The connection closes with CloseHandshakeFailed, or with
// CloseInternalError after a panic.
type HandshakeError struct{ Err error }

// Error returns the message of the cause.
func (e *HandshakeError) Error() string { return "tlsx: handshake: " + e.Err.Error() }

// Unwrap returns the cause: an error of crypto/tls, ErrNotTLS, ErrAborted or a deadline.
func (e *HandshakeError) Unwrap() error { return e.Err }

// The errors that callers compare with errors.Is.
var (
	// ErrNotTLS means that the first bytes of the peer are not those of TLS.
	ErrNotTLS = errors.New("the peer does not speak TLS")
	// ErrAborted means that the peer left in the middle of the handshake.
	ErrAborted = errors.New("the peer left during the handshake")
	// ErrTruncated means that the connection ended between two messages without the peer's close_notify (RFC 8446
	// section 6.1). It is the cause of a CloseIOError.
	ErrTruncated = errors.New("tlsx: the connection ended without close_notify")
	// ErrBusy means that a bound of Options, or of the pool, refused the handshake. It is the cause of a
	// CloseAdmissionRejected.
	ErrBusy = errors.New("tlsx: too many handshakes")
	// ErrFile means that an eddy.File was written, which the kernel would send unencrypted. Read it on a pool and write
	// the bytes.
	ErrFile = errors.New("tlsx: a File cannot be sent through TLS; write its bytes")
	// ErrEarly means that more than Options.MaxEarly was written before the end of the handshake. It is an
	// eddy.ErrBackpressure.
	ErrEarly = fmt.Errorf("tlsx: the handshake is not over: %w", eddy.ErrBackpressure)
)

// Stats are the numbers of a layer since it was made.
type Stats struct {
	Active      int64  // handshakes under way
	Established uint64 // handshakes that succeeded
	Resumed     uint64 // of those, resumed by a ticket
	Failed      uint64 // handshakes that failed, without those in NotTLS and Refused
	NotTLS      uint64 // connections whose first bytes were not TLS
	Refused     uint64 // handshakes refused by MaxHandshakes, Rate or the pool
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

// admit counts one more handshake, or returns which bound refuses it.
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

// logFailure logs a failed handshake, at most logLines per second.
func (l *Layer) logFailure(c *eddy.Conn, err error) {
	if !l.lines.take(l.now()) {
		l.held.Add(1)
		return
	}
	l.o.Logger.Info("tlsx: handshake failed", "peer", c.RemoteAddr(), "err", err, "held_back", l.held.Swap(0))
}
