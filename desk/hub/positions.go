package hub

import (
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// positions tells waiting customers their place in the queue when it changes, each at most once per interval. It owns
// one goroutine.
type positions struct {
	hub   *Hub
	every time.Duration
	kick  chan struct{} // holds one element when a place has changed
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

// roundPause bounds the pause between two rounds.
const roundPause = 50 * time.Millisecond

func newPositions(h *Hub, every time.Duration) *positions {
	return &positions{hub: h, every: every, kick: make(chan struct{}, 1), quit: make(chan struct{})}
}

func (p *positions) start() { p.done.Go(p.run) }

func (p *positions) stop() {
	p.once.Do(func() { close(p.quit) })
	p.done.Wait()
}

// wake asks for a round soon. It never blocks.
func (p *positions) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *positions) run() {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-p.kick:
		case <-again.C:
		}
		now := time.Now()
		due, agents := p.round(now), p.hub.tellStaff(now)
		if agents > 0 && (due == 0 || agents < due) {
			due = agents
		}
		if due > 0 {
			again.Reset(due)
		}
		select { // a round walks the whole queue under the hub's lock, so changes in quick succession share one
		case <-p.quit:
			return
		case <-time.After(min(p.every/20, roundPause)):
		}
	}
}

// round sends the positions that have changed and are not too early. It returns when the next one is due, 0 = none.
func (p *positions) round(now time.Time) (due time.Duration) {
	type note struct {
		e    *entry
		conv string
		q    proto.QueuePosition
		to   []*Session
	}
	var notes []note
	h := p.hub
	h.mu.Lock()
	type line struct {
		places   int
		interval time.Duration // waiting time that one place is worth
	}
	lines := make(map[string]*line)
	for _, e := range h.queue.dir.queue {
		to := h.sessions.contacts[e.conv.Contact]
		l := lines[e.conv.Group]
		if l == nil { // once per group; with ten thousand waiting the round would do little else
			l = &line{interval: h.queue.pace[e.conv.Group].interval()}
			lines[e.conv.Group] = l
		}
		l.places++
		place := l.places
		if e.sent == place || len(to) == 0 || e.conv.ID == h.queue.untold { // a place is told to who knows that it waits
			continue
		}
		if wait := e.at.Add(p.every).Sub(now); wait > 0 {
			if due == 0 || wait < due {
				due = wait
			}
			continue
		}
		e.sent, e.at = place, now
		notes = append(notes, note{e, e.conv.ID, proto.QueuePosition{Position: place, EstimateMS: (l.interval * time.Duration(place)).Milliseconds()}, to})
	}
	h.mu.Unlock()
	for _, n := range notes {
		frame := proto.Event("ev.queue", n.conv, 0, n.q)
		lost := false
		for _, s := range n.to {
			lost = !s.ephemeral(frame) || lost
		}
		if lost {
			due = p.again(n.e, n.q.Position, due)
		}
	}
	return due
}

// again has a place told once more that a session has lost.
func (p *positions) again(e *entry, place int, due time.Duration) time.Duration {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if e.sent == place {
		e.sent = 0
	}
	if due == 0 || p.every < due {
		return p.every
	}
	return due
}

// place returns what a waiting customer is told: its place among those of its group.
func (q *queue) place(e *entry, position int) proto.QueuePosition {
	return proto.QueuePosition{Position: position, EstimateMS: q.pace[e.conv.Group].estimate(position).Milliseconds()}
}

// tellPosition tells a new session of a customer its place in the queue.
func (h *Hub) tellPosition(s *Session, who identity) {
	if who.actor.Kind != store.Customer {
		return
	}
	var frames [][]byte
	h.mu.Lock()
	for _, e := range h.queue.dir.byContact[who.actor.ID] {
		i, ok := h.queue.dir.find(e.conv)
		if !ok || e.conv.State != store.Queued {
			continue
		}
		place := 1
		for _, before := range h.queue.dir.queue[:i] {
			if before.conv.Group == e.conv.Group {
				place++
			}
		}
		frames = append(frames, proto.Event("ev.queue", e.conv.ID, 0, h.queue.place(e, place)))
	}
	h.mu.Unlock()
	for _, f := range frames {
		s.ephemeral(f)
	}
}
