package eddy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

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
	placing, err := s.Placement.bounds()
	if err != nil {
		return nil, err
	}
	set.place = s.Placement.Choose
	set.accept = accept.Settings{Gate: gate, Placing: placing, Tally: &s.endpoint.tally, Batch: orInt(s.AcceptBatch, defaultAcceptBatch), Linger: set.lingerTimeout}
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
	growing := o.marks.High == 0 && o.marks.Low == 0
	if o.marks, err = o.marks.withDefaults(kind); err != nil {
		return nil, err
	}
	if o.base == nil {
		o.base = context.Background()
	}
	o.minRate = max(orInt(o.minRate, defaultMinWriteRate), 0)
	o.flushTimeout = orDuration(o.flushTimeout, defaultFlushTimeout)
	o.lingerTimeout = orDuration(o.lingerTimeout, defaultLingerTimeout)
	o.log = orLogger(o.log)
	return &settings{connOptions: o, owner: owner, growing: growing}, nil
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

// Defaults of the loops' settings.
const (
	defaultIORatio        = 50
	defaultTaskBudget     = 1024
	defaultMinTasks       = 64
	defaultMaxEvents      = 4096
	defaultRebuildAfter   = 512
	defaultStallThreshold = 100 * time.Millisecond
)

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
