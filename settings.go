package eddy

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/reactor"
)

const (
	// OverflowClose closes the connection with CloseBackpressureLimit; the write returns ErrBackpressure. The default.
	OverflowClose OverflowPolicy = iota
	// OverflowReject refuses the write with ErrBackpressure and keeps the connection.
	OverflowReject
	// OverflowDropNewest drops the message that would pass the bound. OverflowDropNewest, OverflowDropOldest and
	// OverflowKeepLatest are for a MessageClass only.
	OverflowDropNewest
	// OverflowDropOldest drops the oldest messages of the class, as many as needed. A message that is partly sent is
	// never dropped.
	OverflowDropOldest
	// OverflowKeepLatest drops all messages of the class that have not begun to be sent, because the new one supersedes
	// them.
	OverflowKeepLatest
	overflowPolicies
)

// Watermarks bound a connection's outbound queue, in bytes. At High and above the connection is unwritable and its reads
// are paused; at Low and below it is writable again. Below High, one message may always be queued, whatever its size. Any
// other message that would pass Max meets the OverflowPolicy.
//
// The defaults are 256 KiB, 1 MiB and 8 MiB. Where neither Low nor High is set, a connection begins with a sixteenth of
// theirs. Both double after its peer has emptied the queue eight times, up to the defaults, so that a peer that reads
// nothing holds little.
type Watermarks struct {
	Low, High, Max int
}

// Budgets of one iteration of a loop.
const (
	readCallBudget  = 16
	readByteBudget  = 256 << 10
	frameBudget     = 32
	turnTime        = 64 * time.Microsecond // for the frames of one connection
	writeCallBudget = 16
	deadlineBudget  = 4096
	scratchSize     = 64 << 10
	retainedBuffers = 4 << 20
)

// settings is the validated configuration of a Server or Dialer, as far as it concerns connections. The value is
// immutable and shared by them.
type settings struct {
	connOptions
	owner   *endpoint
	accept  accept.Settings // zero for a Dialer
	place   Placer          // nil = the Chooser alone decides
	growing bool            // the marks of a connection begin with a part of these
}

// connOptions are the fields that Server and Dialer have in common.
type connOptions struct {
	init          func(*Pipeline) error
	marks         Watermarks
	overflow      OverflowPolicy
	limits        Deadlines
	minRate       int // bytes per second that extend write deadlines; in settings 0 = any byte does
	handshake     time.Duration
	flushTimeout  time.Duration
	lingerTimeout time.Duration
	halfClose     bool
	log           *slog.Logger
	base          context.Context // in settings never nil
	connContext   func(context.Context, *Conn) context.Context
}

func orLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}

// OverflowPolicy says what happens to a write that would pass Watermarks.Max.
type OverflowPolicy uint8

const (
	// WaitParked parks the loop in Go's own poller, so that it costs no thread while it waits and wins its processor
	// back like any goroutine. The default.
	WaitParked WaitMode = iota
	// WaitPinned locks the loop to an OS thread that blocks in the kernel. Use it for dedicated cores.
	WaitPinned
)

// WaitMode says how a loop waits for events.
type WaitMode uint8

// WaitDecision is the choice of a Group's Strategy.
type WaitDecision uint8

const (
	// Block waits for an event, a task or the next deadline, whichever comes first.
	Block = WaitDecision(reactor.Block)
	// Continue does not ask the poller: tasks and deadlines are served, I/O is not.
	Continue = WaitDecision(reactor.Continue)
	// BusyWait asks the poller without waiting.
	BusyWait = WaitDecision(reactor.BusyWait)
)

// field is an option that must not be negative.
type field struct {
	name  string
	value int64
}

func notNegative(kind string, fields []field) error {
	for _, f := range fields {
		if f.value < 0 {
			return fmt.Errorf("eddy: %s.%s is %d: it must not be negative", kind, f.name, f.value)
		}
	}
	return nil
}

func orInt(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func orString(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

func orDuration(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}
