package eddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// WaitMode says how a loop waits for events.
type WaitMode uint8

const (
	// WaitParked parks the loop in Go's own poller, so that it costs no thread while it waits and wins its processor
	// back like any goroutine. The default.
	WaitParked WaitMode = iota
	// WaitPinned locks the loop to an OS thread that blocks in the kernel. Use it for dedicated cores.
	WaitPinned
)

// OverflowPolicy says what happens to a write that would pass Watermarks.Max.
type OverflowPolicy uint8

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

// Defaults of the zero Server.
const (
	defaultLowWatermark  = 256 << 10
	defaultHighWatermark = 1 << 20
	defaultMaxOutbound   = 8 << 20
	defaultTaskQueue     = 64 << 10
	defaultAcceptBatch   = 256
	defaultFlushTimeout  = 10 * time.Second
	defaultLingerTimeout = 2 * time.Second
	defaultMinWriteRate  = 256
	defaultKeepAlive     = 15 * time.Second // as package net
	defaultUnsent        = 256 << 10
)

// Budgets of one iteration of a loop.
const (
	readCallBudget  = 16
	readByteBudget  = 256 << 10
	frameBudget     = 32
	writeCallBudget = 16
	deadlineBudget  = 4096
	scratchSize     = 64 << 10
	retainedBuffers = 4 << 20
)

// settings is the validated configuration of a Server or Dialer, as far as it concerns connections. The value is
// immutable and shared by them.
type settings struct {
	owner         *endpoint
	init          func(*Pipeline) error
	accept        accept.Settings // zero for a Dialer
	marks         Watermarks
	growing       bool // the marks of a connection begin with a part of these
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

// settings validates the server's fields and fills in the defaults; an error names the field.
func (s *Server) settings() (*settings, error) {
	if s.Init == nil {
		return nil, errors.New("eddy: Server.Init is nil: it must build the pipeline")
	}
	if err := s.checkTopology(); err != nil {
		return nil, err
	}
	err := notNegative("Server", []field{
		{"Loops", int64(s.Loops)}, {"MaxConns", int64(s.MaxConns)}, {"AcceptBatch", int64(s.AcceptBatch)},
		{"Backlog", int64(s.Backlog)}, {"TaskQueue", int64(s.TaskQueue)},
		{"RecvBuffer", int64(s.RecvBuffer)}, {"SendBuffer", int64(s.SendBuffer)}, {"KeepCloses", int64(s.KeepCloses)},
	})
	if err != nil {
		return nil, err
	}
	if s.KeepCloses > maxKeepCloses {
		return nil, fmt.Errorf("eddy: Server.KeepCloses is %d, limit %d", s.KeepCloses, maxKeepCloses)
	}
	set, err := connOptions{
		init: s.Init, marks: s.Watermarks, overflow: s.Overflow, flushTimeout: s.FlushTimeout,
		limits: Deadlines{
			Idle: s.IdleTimeout, Read: s.ReadTimeout, Body: s.BodyTimeout,
			Handler: s.HandlerTimeout, Write: s.WriteTimeout, Backpressure: s.BackpressureTimeout,
		},
		minRate: s.MinWriteRate, handshake: s.HandshakeTimeout, lingerTimeout: s.LingerTimeout, halfClose: !s.CloseOnEOF, log: s.Logger,
		base: s.BaseContext, connContext: s.ConnContext,
	}.settings("Server", &s.endpoint)
	if err != nil {
		return nil, err
	}
	gate, err := s.Admission.gate(s.MaxConns)
	if err != nil {
		return nil, err
	}
	set.accept = accept.Settings{Gate: gate, Tally: &s.endpoint.tally, Batch: orInt(s.AcceptBatch, defaultAcceptBatch), Linger: set.lingerTimeout}
	set.accept.Listen = sys.ListenOptions{
		Backlog: s.Backlog, KeepAlive: orDuration(s.KeepAlive, defaultKeepAlive),
		RecvBuffer: s.RecvBuffer, SendBuffer: s.SendBuffer, Unsent: max(orInt(s.Unsent, defaultUnsent), 0),
	}
	return set, nil
}

// settings validates the dialer's fields and fills in the defaults; an error names the field.
func (d *Dialer) settings() (*settings, error) {
	err := notNegative("Dialer", []field{
		{"MaxConns", int64(d.MaxConns)}, {"ConnectTimeout", int64(d.ConnectTimeout)},
		{"RecvBuffer", int64(d.RecvBuffer)}, {"SendBuffer", int64(d.SendBuffer)},
	})
	if err != nil {
		return nil, err
	}
	return connOptions{
		init: d.Init, marks: d.Watermarks, overflow: d.Overflow, flushTimeout: d.FlushTimeout,
		limits: Deadlines{
			Idle: d.IdleTimeout, Read: d.ReadTimeout, Body: d.BodyTimeout,
			Handler: d.HandlerTimeout, Write: d.WriteTimeout, Backpressure: d.BackpressureTimeout,
		},
		minRate: d.MinWriteRate, handshake: d.HandshakeTimeout, lingerTimeout: d.LingerTimeout, halfClose: !d.CloseOnEOF, log: d.Logger,
		base: d.BaseContext, connContext: d.ConnContext,
	}.settings("Dialer", &d.endpoint)
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

// settings validates the options and fills in the defaults. kind is "Server" or "Dialer", for error messages.
func (o connOptions) settings(kind string, owner *endpoint) (*settings, error) {
	err := notNegative(kind, []field{
		{"IdleTimeout", int64(o.limits.Idle)}, {"ReadTimeout", int64(o.limits.Read)}, {"BodyTimeout", int64(o.limits.Body)},
		{"HandlerTimeout", int64(o.limits.Handler)}, {"WriteTimeout", int64(o.limits.Write)},
		{"BackpressureTimeout", int64(o.limits.Backpressure)}, {"HandshakeTimeout", int64(o.handshake)}, {"FlushTimeout", int64(o.flushTimeout)}, {"LingerTimeout", int64(o.lingerTimeout)},
	})
	if err != nil {
		return nil, err
	}
	if o.overflow > OverflowReject {
		return nil, fmt.Errorf("eddy: %s.Overflow is %d: it must be OverflowClose or OverflowReject; the others are for a MessageClass", kind, o.overflow)
	}
	marks, err := o.marks.withDefaults(kind)
	if err != nil {
		return nil, err
	}
	if o.base == nil {
		o.base = context.Background()
	}
	return &settings{
		owner:         owner,
		init:          o.init,
		marks:         marks,
		growing:       o.marks.High == 0 && o.marks.Low == 0,
		overflow:      o.overflow,
		limits:        o.limits,
		minRate:       max(orInt(o.minRate, defaultMinWriteRate), 0),
		handshake:     o.handshake,
		flushTimeout:  orDuration(o.flushTimeout, defaultFlushTimeout),
		lingerTimeout: orDuration(o.lingerTimeout, defaultLingerTimeout),
		halfClose:     o.halfClose,
		log:           orLogger(o.log),
		base:          o.base,
		connContext:   o.connContext,
	}, nil
}

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

// checkTopology refuses fields that contradict each other about the loops.
func (s *Server) checkTopology() error {
	if s.Group != nil && (s.Loops != 0 || s.Poller != "" || s.WaitMode != WaitParked || s.TaskQueue != 0) {
		return errors.New("eddy: Server.Group is set: Loops, Poller, WaitMode and TaskQueue belong to the Group then")
	}
	switch {
	case s.Topology >= topologies:
		return fmt.Errorf("eddy: Server.Topology is %d: it must be BossWorkers, SingleReactor or ListenerPerLoop", s.Topology)
	case s.Boss != nil && s.Topology != BossWorkers:
		return errors.New("eddy: Server.Boss is set: only BossWorkers has a boss")
	case s.Topology == SingleReactor && s.Loops > 1:
		return fmt.Errorf("eddy: Server.Loops is %d: SingleReactor has one", s.Loops)
	}
	return nil
}

func (w Watermarks) withDefaults(kind string) (Watermarks, error) {
	w.Low = orInt(w.Low, defaultLowWatermark)
	w.High = orInt(w.High, defaultHighWatermark)
	w.Max = orInt(w.Max, defaultMaxOutbound)
	if w.Low < 0 || w.Low >= w.High || w.High > w.Max {
		return w, fmt.Errorf("eddy: %s.Watermarks are Low %d, High %d, Max %d: they must satisfy 0 < Low < High <= Max", kind, w.Low, w.High, w.Max)
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

// Defaults of the loops' settings.
const (
	defaultIORatio        = 50
	defaultTaskBudget     = 1024
	defaultMinTasks       = 64
	defaultMaxEvents      = 4096
	defaultRebuildAfter   = 512
	defaultStallThreshold = 100 * time.Millisecond
)

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

// tuning holds a Group's settings for its loops, after validation.
type tuning struct {
	ioRatio, taskBudget, minTasks int
	maxEvents                     int
	rebuildAfter                  int // 0 = never
	strategy                      func(timeout time.Duration, empty int) WaitDecision
	cpus                          []int
	spin                          time.Duration
	stall                         time.Duration // 0 = never
	onStall                       func(Stall)
}

// tuning validates the group's fields and fills in the defaults; an error names the field.
func (g *Group) tuning() (tuning, error) {
	budget := orInt(g.TaskBudget, defaultTaskBudget)
	s := tuning{
		ioRatio:      orInt(g.IORatio, defaultIORatio),
		taskBudget:   budget,
		minTasks:     orInt(g.MinTasks, min(defaultMinTasks, budget)),
		maxEvents:    orInt(g.MaxEvents, defaultMaxEvents),
		rebuildAfter: orInt(g.RebuildAfter, defaultRebuildAfter),
		strategy:     g.Strategy,
		cpus:         slices.Clone(g.CPUs),
		spin:         g.Spin,
		stall:        max(0, orDuration(g.StallThreshold, defaultStallThreshold)),
		onStall:      g.OnStall,
	}
	const maxRatio = 100
	switch {
	case s.ioRatio < 1 || s.ioRatio > maxRatio:
		return s, fmt.Errorf("eddy: Group.IORatio is %d: it must be between 1 and %d", g.IORatio, maxRatio)
	case s.taskBudget < 1:
		return s, fmt.Errorf("eddy: Group.TaskBudget is %d: it must not be negative", g.TaskBudget)
	case s.minTasks < 1 || s.minTasks > s.taskBudget:
		return s, fmt.Errorf("eddy: Group.MinTasks is %d: it must be between 1 and TaskBudget, which is %d", g.MinTasks, s.taskBudget)
	case s.maxEvents < 1:
		return s, fmt.Errorf("eddy: Group.MaxEvents is %d: it must not be negative", g.MaxEvents)
	case s.rebuildAfter < reactor.MinRebuildAfter:
		s.rebuildAfter = 0
	}
	return s, s.checkPinned(g.WaitMode)
}

// reactor returns the settings of loop i.
func (s *loopSettings) reactor(i int) *reactor.Settings {
	set := &reactor.Settings{
		TaskQueue: s.taskQueue, MaxEvents: s.maxEvents,
		IORatio: s.ioRatio, TaskBudget: s.taskBudget, MinTasks: s.minTasks,
		RebuildAfter: s.rebuildAfter, Spin: s.spin, Stall: s.stall,
		Pinned: s.wait == WaitPinned, CPU: -1,
	}
	if len(s.cpus) > 0 {
		set.CPU = s.cpus[i%len(s.cpus)]
	}
	if f := s.strategy; f != nil {
		set.Strategy = func(timeout time.Duration, empty int) reactor.Decision { return reactor.Decision(f(timeout, empty)) }
	}
	return set
}

// checkPinned refuses options that need loops in WaitPinned.
func (s *tuning) checkPinned(wait WaitMode) error {
	for _, cpu := range s.cpus {
		if cpu < 0 {
			return fmt.Errorf("eddy: Group.CPUs names processor %d: it must not be negative", cpu)
		}
	}
	if wait == WaitPinned {
		return nil
	}
	if len(s.cpus) > 0 {
		return fmt.Errorf("eddy: Group.CPUs names %d processors: only loops in WaitPinned can be pinned", len(s.cpus))
	}
	if s.spin != 0 {
		return fmt.Errorf("eddy: Group.Spin is %v: only loops in WaitPinned may spin", s.spin)
	}
	return nil
}

// tuneBoss gives the group of a server's boss the settings of its workers, except CPUs and Spin, which take up a
// processor.
func (s *tuning) tuneBoss(g *Group) {
	const off = -1
	g.IORatio, g.TaskBudget, g.MinTasks, g.MaxEvents = s.ioRatio, s.taskBudget, s.minTasks, s.maxEvents
	g.RebuildAfter = s.rebuildAfter
	if s.rebuildAfter == 0 {
		g.RebuildAfter = off
	}
	g.StallThreshold, g.OnStall = s.stall, s.onStall
	if s.stall == 0 {
		g.StallThreshold = off
	}
}
