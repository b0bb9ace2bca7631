package eddy

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
)

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
