package eddy

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"
)

// WaitMode says how a loop waits for events (DESIGN 3.2).
type WaitMode uint8

const (
	// WaitParked parks the loop in Go's own poller, so that it costs no thread while it waits and wins its processor
	// back like any goroutine. The default.
	WaitParked WaitMode = iota
	// WaitPinned locks the loop to an OS thread that blocks in the kernel: for dedicated cores.
	WaitPinned
)

// OverflowPolicy says what happens to a write that would pass Watermarks.Max.
type OverflowPolicy uint8

const (
	// OverflowClose closes the connection with CloseBackpressureLimit; the write returns ErrBackpressure. The default.
	OverflowClose OverflowPolicy = iota
	// OverflowReject refuses the write with ErrBackpressure and keeps the connection.
	OverflowReject
)

// Watermarks bound a connection's outbound queue, in bytes. At High and above the connection is unwritable and its
// reads are paused; at Low and below it is writable again. One message may always be queued below High, whatever its
// size; otherwise what would pass Max meets the OverflowPolicy.
type Watermarks struct {
	Low, High, Max int
}

// Defaults of the zero Server.
const (
	DefaultLowWatermark  = 256 << 10
	DefaultHighWatermark = 1 << 20
	DefaultMaxOutbound   = 8 << 20
	DefaultTaskQueue     = 64 << 10
	DefaultAcceptBatch   = 256
	DefaultFlushTimeout  = 10 * time.Second
	DefaultLingerTimeout = 2 * time.Second
)

// Budgets of one iteration (DESIGN 3.3).
const (
	taskBudget      = 1024
	readCallBudget  = 16
	readByteBudget  = 256 << 10
	frameBudget     = 32
	writeCallBudget = 16
	deadlineBudget  = 4096
	scratchSize     = 64 << 10
	retainedBuffers = 4 << 20
)

// settings is a Server's configuration after validation. It is immutable and shared by its loops and connections.
type settings struct {
	init          func(*Pipeline) error
	loops         int
	poller        string
	wait          WaitMode
	maxConns      int
	acceptBatch   int
	backlog       int
	marks         Watermarks
	overflow      OverflowPolicy
	idle          time.Duration
	flushTimeout  time.Duration
	lingerTimeout time.Duration
	halfClose     bool
	taskQueue     int
	log           *slog.Logger
}

// settings validates the server's fields and fills in the defaults; an error names the field.
func (s *Server) settings() (*settings, error) {
	if s.Init == nil {
		return nil, fmt.Errorf("eddy: Server.Init is nil: it must build the pipeline")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Loops", int64(s.Loops)}, {"MaxConns", int64(s.MaxConns)}, {"AcceptBatch", int64(s.AcceptBatch)},
		{"Backlog", int64(s.Backlog)}, {"TaskQueue", int64(s.TaskQueue)}, {"IdleTimeout", int64(s.IdleTimeout)},
		{"FlushTimeout", int64(s.FlushTimeout)}, {"LingerTimeout", int64(s.LingerTimeout)},
	} {
		if f.value < 0 {
			return nil, fmt.Errorf("eddy: Server.%s is %d: it must not be negative", f.name, f.value)
		}
	}
	marks, err := s.Watermarks.withDefaults()
	if err != nil {
		return nil, err
	}
	return &settings{
		init:          s.Init,
		loops:         orInt(s.Loops, runtime.GOMAXPROCS(0)),
		poller:        orString(s.Poller, os.Getenv("EDDY_POLLER")),
		wait:          s.WaitMode,
		maxConns:      s.MaxConns,
		acceptBatch:   orInt(s.AcceptBatch, DefaultAcceptBatch),
		backlog:       s.Backlog,
		marks:         marks,
		overflow:      s.Overflow,
		idle:          s.IdleTimeout,
		flushTimeout:  orDuration(s.FlushTimeout, DefaultFlushTimeout),
		lingerTimeout: orDuration(s.LingerTimeout, DefaultLingerTimeout),
		halfClose:     s.HalfClose,
		taskQueue:     orInt(s.TaskQueue, DefaultTaskQueue),
		log:           orLogger(s.Logger),
	}, nil
}

func (w Watermarks) withDefaults() (Watermarks, error) {
	w.Low = orInt(w.Low, DefaultLowWatermark)
	w.High = orInt(w.High, DefaultHighWatermark)
	w.Max = orInt(w.Max, DefaultMaxOutbound)
	if w.Low < 0 || w.Low >= w.High || w.High > w.Max {
		return w, fmt.Errorf("eddy: Server.Watermarks are Low %d, High %d, Max %d: they must satisfy 0 < Low < High <= Max", w.Low, w.High, w.Max)
	}
	return w, nil
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

func orLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}
