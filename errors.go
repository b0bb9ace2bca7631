package eddy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
)

// CloseReason says why a connection ended. Every connection ends with exactly one reason, of those below or of the
// application's own, see RegisterCloseReason.
type CloseReason uint8

// The close reasons. Their String form is the metric label.
const (
	CloseUnset             CloseReason = iota // the connection has not ended
	CloseNormal                               // the server finished with the connection
	ClosePeerClosed                           // the peer closed between requests
	CloseIncompleteRequest                    // the peer closed inside a request
	CloseProtocolError                        // the peer broke the protocol
	CloseFrameTooLarge                        // a frame was longer than the limit
	CloseHandshakeFailed                      // a handshake was refused or failed
	CloseIdleTimeout                          // nothing was read or written for too long
	CloseReadTimeout                          // a header or frame did not complete in time
	CloseBodyTimeout                          // a body did not complete in time
	CloseHandlerTimeout                       // a handler did not answer in time
	CloseWriteTimeout                         // the peer did not take the response in time
	CloseAdmissionRejected                    // a limit refused the connection
	CloseBackpressureLimit                    // too much was queued for a slow reader, or an executor refused the work
	CloseServerShutdown                       // the server stopped
	CloseOverload                             // the server had too much to do, see Server.EndIdle and Server.EndKeepAlive
	CloseIOError                              // the socket failed, resets included
	CloseInternalError                        // a handler panicked or returned an unclassified error
	closeReasons                              // the first of the application's own
)

var closeReasonNames = [closeReasons]string{
	"unset", "normal", "peer_closed", "incomplete_request", "protocol_error", "frame_too_large", "handshake_failed",
	"idle_timeout", "read_timeout", "body_timeout", "handler_timeout", "write_timeout", "admission_rejected",
	"backpressure_limit", "server_shutdown", "overload", "io_error", "internal_error",
}

// The errors that callers compare with errors.Is.
var (
	// ErrClosed reports that the connection, or the loop that owned it, has ended. The error is often a *CloseError.
	ErrClosed = reactor.ErrClosed
	// ErrServerClosed is what Wait and ListenAndServe return after Shutdown or Close.
	ErrServerClosed = errors.New("eddy: server closed")
	// ErrSaturated reports that the loop's task queue is full; the work was not taken.
	ErrSaturated = reactor.ErrSaturated
	// ErrBackpressure reports that the outbound queue would pass Watermarks.Max; the message was not taken.
	ErrBackpressure = errors.New("eddy: outbound queue of the connection is full")
	// ErrWriteClosed reports a write after Conn.CloseWrite. To errors.Is it is an ErrClosed.
	ErrWriteClosed = fmt.Errorf("eddy: written after CloseWrite: %w", ErrClosed)
	// ErrOffLoop reports that a call that belongs to the connection's loop was made elsewhere; the call did nothing.
	ErrOffLoop = errors.New("eddy: the pipeline of an open connection is used on its loop only: elsewhere call Conn.Write or Conn.Change")
	// ErrOnLoop reports a blocking call on a loop of any group. The call could wait for that very loop, and every
	// connection on the loop would wait with it.
	ErrOnLoop = errors.New("eddy: a blocking call may not run on a loop")
	// ErrOnPool reports that a handler waited for the end of a server on a pool that ends with that server.
	ErrOnPool = errors.New("eddy: a handler on a pool of the server cannot wait for the server's end")
)

// CloseError tells why a connection ended. It matches ErrClosed with errors.Is.
type CloseError struct {
	Reason CloseReason
	Err    error // the cause, may be nil
}

// Error names the reason and, if there is one, the cause.
func (e *CloseError) Error() string {
	if e.Err == nil {
		return "eddy: connection closed: " + e.Reason.String()
	}
	return "eddy: connection closed: " + e.Reason.String() + ": " + e.Err.Error()
}

// Is reports that every CloseError is ErrClosed.
func (e *CloseError) Is(target error) bool { return target == ErrClosed }

// Unwrap returns the cause.
func (e *CloseError) Unwrap() error { return e.Err }

// reasonError marks an error with the reason its connection must close with.
type reasonError struct {
	reason CloseReason
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }

func (e *reasonError) Unwrap() error { return e.err }

// WithReason marks err so that the connection it ends closes with reason. Handlers and decoders return the marked error.
func WithReason(reason CloseReason, err error) error {
	if err == nil {
		err = errors.New("eddy: " + reason.String())
	}
	return &reasonError{reason: reason, err: err}
}

// reasonOf classifies an error that reached the tail of a pipeline.
func reasonOf(err error) CloseReason {
	if re, ok := errors.AsType[*reasonError](err); ok {
		return re.reason
	}
	if ce, ok := errors.AsType[*CloseError](err); ok {
		return ce.Reason
	}
	if errors.Is(err, ErrBackpressure) || errors.Is(err, ErrSaturated) || errors.Is(err, executor.ErrRejected) || errors.Is(err, executor.ErrClosed) {
		return CloseBackpressureLimit
	}
	return CloseInternalError
}

// PanicError is what a handler's panic becomes on its way through the pipeline's ErrorHandlers.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the panic's value; the stack is in the log.
func (e *PanicError) Error() string { return fmt.Sprintf("eddy: panic in a handler: %v", e.Value) }

// The bounds of an application's own close reasons. Every server counts each of them, for each network and tenant as well.
const (
	maxOwnReasons    = 32
	ownReasonMaxName = 40 // bytes
)

// The counts have room for every reason: with more reasons this does not compile.
const _ uint = meter.Kinds - uint(closeReasons) - maxOwnReasons

// RegisterCloseReason returns the application's own close reason of the given name. A connection can be closed with it
// wherever it can be closed with a reason of the engine. Its String form is the name, which is also its metric label.
// Register reasons where a package initialises its variables, so that their counters begin with the server's:
//
//	var QuotaExceeded = eddy.RegisterCloseReason("quota_exceeded")
//
// A name that is registered again stands for the same reason, so that packages can share one. A name begins with a letter
// and has at most 40 of the characters a-z, 0-9 and _. RegisterCloseReason panics if it has others, if the name belongs to
// the engine, and at the 33rd name. Any goroutine.
func RegisterCloseReason(name string) CloseReason {
	r, err := ownReasons.register(name)
	if err != nil {
		panic(err)
	}
	return r
}

// ownReasons are the close reasons of the application.
var ownReasons reasonNames

// reasonNames are the names of the reasons beyond those of the engine. Those below count never change.
type reasonNames struct {
	mu    sync.Mutex // held by register
	count atomic.Int32
	names [maxOwnReasons]string
}

func (o *reasonNames) register(name string) (CloseReason, error) {
	for r, known := range closeReasonNames {
		if name == known {
			return 0, fmt.Errorf("eddy: RegisterCloseReason(%q): the engine closes with that reason itself (%d): choose another name", name, r)
		}
	}
	if !snakeCase(name) {
		return 0, fmt.Errorf("eddy: RegisterCloseReason(%.50q): a name begins with a letter and has at most %d of a-z, 0-9 and _, such as \"quota_exceeded\"", name, ownReasonMaxName)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := int(o.count.Load())
	for i, known := range o.names[:n] {
		if name == known {
			return closeReasons + CloseReason(i), nil
		}
	}
	if n == maxOwnReasons {
		return 0, fmt.Errorf("eddy: RegisterCloseReason(%q): there are %d reasons already, the limit: register fixed names once, not names made of data", name, maxOwnReasons)
	}
	o.names[n] = name
	o.count.Store(int32(n + 1))
	return closeReasons + CloseReason(n), nil
}

func snakeCase(name string) bool {
	return name != "" && len(name) <= ownReasonMaxName && name[0] >= 'a' && name[0] <= 'z' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// String returns the reason's snake_case name, the one metrics use.
func (r CloseReason) String() string {
	if r < closeReasons {
		return closeReasonNames[r]
	}
	if r < allReasons() {
		return ownReasons.names[r-closeReasons]
	}
	return fmt.Sprintf("close_reason_%d", uint8(r))
}

// allReasons is the first number that is no reason.
func allReasons() CloseReason { return closeReasons + CloseReason(ownReasons.count.Load()) }

// CloseReasons lists every reason a connection can end with: the engine's, then the application's in the order of their
// registration.
func CloseReasons() []CloseReason {
	n := allReasons()
	all := make([]CloseReason, 0, n-1)
	for r := CloseNormal; r < n; r++ {
		all = append(all, r)
	}
	return all
}

// orInternal returns r if a connection can end with r, and otherwise CloseInternalError.
func (r CloseReason) orInternal() CloseReason {
	if r == CloseUnset || r >= allReasons() {
		return CloseInternalError
	}
	return r
}

// causeText returns the start of the error's text, even if its Error method panics.
func causeText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = "an error whose Error method panicked"
		}
	}()
	return firstBytes(err.Error(), causeBytes)
}

// causeBytes bounds the kept text of a cause.
const causeBytes = 200

// firstBytes returns the first bytes of a text that came from elsewhere, as valid UTF-8.
func firstBytes(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

var (
	// ErrDialerClosed is the error of Dial after Close or Shutdown, and of attempts that were on their way then.
	ErrDialerClosed = errors.New("eddy: dialer closed")

	errGroupBusy = fmt.Errorf("eddy: no loop of the group takes the connection: %w", ErrSaturated)
)
