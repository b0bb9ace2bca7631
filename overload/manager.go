package overload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/limit"
)

// Manager reads the sources and acts. It has one goroutine, and does nothing on loops but short tasks. It ends when all its servers
// have begun to drain or close, or with Close, and undoes its actions then. A pool and a server belong to one Manager at most,
// which is the only one to call their RefuseBelow and RefuseConns.
type Manager struct {
	o       Options
	log     *slog.Logger
	sources []*source
	began   time.Time

	mu      sync.Mutex // held for a look
	latches [actions]latch
	grade   Action
	last    string // source with the highest pressure at the last look
	most    float64
	over    bool
	lines   sample.Lines // of the log: changes of the grade

	once    sync.Once
	stop    chan struct{}
	stopped chan struct{}
}

// source is a Source with what is known of it.
type source struct {
	Source
	relieves [actions]bool
	pressure float64
	errs     uint64
	err      error // of the last look
}

// New returns a Manager that works already. The error names the option that is wrong. The servers may listen later.
func New(o Options) (*Manager, error) {
	m, err := newManager(o)
	if err != nil {
		return nil, err
	}
	go m.run()
	return m, nil
}

func newManager(o Options) (*Manager, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.EndAtOnce = cmp.Or(o.EndAtOnce, defaultEndAtOnce)
	m := &Manager{o: o, log: o.Logger, began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	if m.log == nil {
		m.log = slog.Default()
	}
	for a, at := range o.Thresholds.list() {
		m.latches[a].at = at
	}
	m.latches[None].at = -1
	for _, s := range append(o.builtin(), o.Sources...) {
		known := &source{Source: s}
		for _, a := range Actions() {
			known.relieves[a] = s.Relief == nil || slices.Contains(s.Relief, a)
		}
		m.sources = append(m.sources, known)
	}
	return m, nil
}

// run looks at the sources until the manager ends.
func (m *Manager) run() {
	defer close(m.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if m.ends() {
				m.undo()
				return
			}
			m.look(time.Now())
		case <-m.stop:
			m.undo()
			return
		}
	}
}

// ends reports whether every server has begun to end.
func (m *Manager) ends() bool {
	return !slices.ContainsFunc(m.o.Servers, func(s *eddy.Server) bool { return !s.Draining() })
}

// Close ends the manager and undoes its actions. A later call does nothing. Any goroutine but a Source's Read.
func (m *Manager) Close() {
	m.once.Do(func() { close(m.stop) })
	<-m.stopped
}

// look reads the sources once and acts.
func (m *Manager) look(now time.Time) {
	for _, s := range m.sources {
		m.read(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.most = "", 0
	for _, s := range m.sources {
		if s.pressure > m.most {
			m.last, m.most = s.Name, s.pressure
		}
	}
	for _, a := range Actions() {
		pressure := 0.0
		for _, s := range m.sources {
			if s.relieves[a] {
				pressure = max(pressure, s.pressure)
			}
		}
		if m.latches[a].look(pressure, now) {
			m.changed(a)
		}
	}
	m.repeat()
	m.tell(now)
}

// read reads one source. A failure is logged once, and again after the source could be read in between.
func (m *Manager) read(s *source) {
	pressure, err := s.try()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		if s.errs++; s.err == nil {
			m.log.Warn("eddy: a source of the overload manager cannot be read and counts for nothing", "source", s.Name, "err", err)
		}
		pressure = 0
	}
	s.pressure, s.err = max(pressure, 0), err
}

// try calls Read, whose panic is an error.
func (s *source) try() (pressure float64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	pressure, err = s.Read()
	if err == nil && pressure != pressure {
		err = errors.New("the pressure is not a number")
	}
	return pressure, err
}

// changed carries out the begin or the end of an action. m.mu is held.
func (m *Manager) changed(a Action) {
	switch a {
	case RefuseSheddable, RefuseSheddablePlus:
		floor := limit.Sheddable
		if m.latches[RefuseSheddable].on {
			floor = limit.SheddablePlus
		}
		if m.latches[RefuseSheddablePlus].on {
			floor = limit.Critical
		}
		for _, p := range m.o.Pools {
			p.RefuseBelow(floor)
		}
	case StopAccepting:
		for _, s := range m.o.Servers {
			s.RefuseConns(m.latches[a].on)
		}
	}
}

// repeat does what is done at each look while it is in force. m.mu is held.
func (m *Manager) repeat() {
	for _, s := range m.o.Servers {
		if m.latches[EndIdle].on {
			s.EndIdle(m.o.EndAtOnce)
		}
		if m.latches[EndKeepAlive].on {
			s.EndKeepAlive(m.o.EndAtOnce)
		}
	}
}

// tell logs a change of the grade. m.mu is held.
func (m *Manager) tell(now time.Time) {
	was := m.grade
	m.grade = None
	for _, a := range Actions() {
		if m.latches[a].on {
			m.grade = a
		}
	}
	if m.grade == was {
		return
	}
	ok, held := m.lines.Allow(int64(now.Sub(m.began)) + sample.Interval) // the first interval begins with the first line
	if !ok {
		return
	}
	level, text := slog.LevelWarn, "eddy: overload"
	if m.grade < was {
		level, text = slog.LevelInfo, "eddy: less overload"
	}
	m.log.Log(context.Background(), level, text, "grade", m.grade.String(), "before", was.String(), "source", m.last, "pressure", fmt.Sprintf("%.2f", m.most), "held_back", held)
}

// undo ends all actions.
func (m *Manager) undo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range Actions() {
		if l := &m.latches[a]; l.on {
			l.end()
			m.changed(a)
		}
	}
	for _, s := range m.sources {
		s.pressure = 0
	}
	m.last, m.most, m.over = "", 0, true
	m.tell(time.Now())
}

// Stats are the numbers of a Manager.
type Stats struct {
	Grade    Action  // the strongest action in force
	Pressure float64 // the highest of all sources; 1 is a limit
	Source   string  // that has it; "" without pressure
	Over     bool    // the manager has ended
	Sources  []SourceStats
	Actions  []ActionStats
}

// SourceStats are the numbers of one source.
type SourceStats struct {
	Name     string
	Pressure float64 // 1 is the limit; 0 while it cannot be read
	Errors   uint64  // times that it could not be read
	Err      error   // why it cannot be read now
}

// ActionStats are the numbers of one action.
type ActionStats struct {
	Action Action
	Active bool   // in force
	Began  uint64 // times that it began
	Ended  uint64 // times that it was undone
}

// Stats returns the numbers of the last look. Any goroutine.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := Stats{Grade: m.grade, Pressure: m.most, Source: m.last, Over: m.over}
	for _, s := range m.sources {
		st.Sources = append(st.Sources, SourceStats{s.Name, s.pressure, s.errs, s.err})
	}
	for _, a := range Actions() {
		l := &m.latches[a]
		st.Actions = append(st.Actions, ActionStats{a, l.on, l.began, l.ended})
	}
	return st
}
