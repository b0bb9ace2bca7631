package eddy

import (
	"fmt"

	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
)

func init() { simhook.Simulate = simulate } //nolint:gochecknoinits // the door is internal and must be open at once

// simulate is simhook.Simulate.
func simulate(h simhook.Host, on ...any) {
	k := &kernel{
		sockets: h.Sockets,
		clock:   h.Clock,
		poller:  func(string, WaitMode) (sys.Poller, error) { return h.Poller() },
		start:   func(l *loop) { h.Start(simLoop{l}) },
		await:   h.Await,
		pause:   h.Pause,
	}
	for _, s := range on {
		s.(interface{ simulate(*kernel) }).simulate(k)
	}
}

func (g *Group) simulate(k *kernel)  { g.platform = k }
func (s *Server) simulate(k *kernel) { s.platform = k }
func (d *Dialer) simulate(k *kernel) { d.platform = k }

// simLoop is a loop as the simulated machine sees it.
type simLoop struct{ l *loop }

func (s simLoop) Name() string { return s.l.Name }
func (s simLoop) Run()         { s.l.Run(nil) }

func (s simLoop) Check(w simhook.Waiting) error {
	if s.l.Polled() { // the second poll of an iteration, with work in hand
		return nil
	}
	k := newInspection(s.l)
	k.slots()
	k.lists()
	for c := range s.l.table.All() {
		if k.err == nil {
			k.conn(c)
		}
	}
	k.pipes()
	k.wheel()
	k.numbers(w)
	k.nothingLost(w)
	return k.err
}

func (s simLoop) State() string {
	l := s.l
	return fmt.Sprintf("%d ready, %d dirty, %d closing, %d tasks, %d connections, stopping %v, draining %v, now %d, next deadline %d",
		len(l.lists.ready), len(l.lists.dirty), len(l.lists.closing), l.Tasks.Depth(), l.table.Active(), l.Stopping, l.walking(), l.Now, l.NextDeadline())
}

func (s simLoop) CheckEnd() error {
	k := newInspection(s.l)
	k.slots()
	k.wheel()
	k.empty()
	return k.err
}
