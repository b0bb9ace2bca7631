package hub

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// next returns the first conversation of the queue that an agent can have now, and the agent; "" = none. Hub.mu is held.
func (r *router) next(seen *round) (c store.Conversation, agent string) {
	q := &r.hub.queue
	seen.now, seen.later = q.o.Now().UnixMilli(), 0
	var present []*member
	free := 0
	for _, m := range q.roster.members {
		if !q.serves(m) {
			continue
		}
		present = append(present, m)
		if m.ready > seen.now {
			seen.later = earlier(seen.later, m.ready)
		}
		if q.can(m, seen) {
			free++
		}
	}
	if free == 0 {
		return c, ""
	}
	slices.SortFunc(present, func(a, b *member) int { return cmp.Compare(a.ID, b.ID) })
	lines := q.served(present, seen)
	for {
		first := foremost(lines)
		if first == nil {
			return c, ""
		}
		e := first.waiting[0]
		first.waiting = first.waiting[1:]
		if seen.convs[e.conv.ID] {
			continue
		}
		if agent := r.choose(&e.conv, first.team, seen); agent != "" {
			return e.conv, agent
		}
	}
}

// servedLine is what waits in a line, and the agents for it.
type servedLine struct {
	waiting []*entry
	team    []*member
}

// served returns the lines for which somebody is free.
func (q *queue) served(present []*member, seen *round) []*servedLine {
	var lines []*servedLine
	for l, waiting := range q.dir.lines {
		team := q.team(l, present)
		if slices.ContainsFunc(team, func(m *member) bool { return q.can(m, seen) }) {
			lines = append(lines, &servedLine{waiting, team})
		}
	}
	return lines
}

// foremost returns the line whose first conversation comes first in the queue, nil = nobody waits.
func foremost(lines []*servedLine) (first *servedLine) {
	for _, l := range lines {
		if len(l.waiting) > 0 && (first == nil || l.waiting[0].conv.CompareQueue(&first.waiting[0].conv) < 0) {
			first = l
		}
	}
	return first
}

// team returns the members of present that may get conversations of a line from the router.
func (q *queue) team(l line, present []*member) []*member {
	settings := q.settings(l.group)
	if settings.Strategy == store.Manual {
		return nil
	}
	var team []*member
	for _, m := range present {
		if m.in(l.group) && m.knows(l) {
			team = append(team, m)
		}
	}
	return team
}

// room reports whether a member can have one more conversation.
func (q *queue) room(m *member) bool { return q.dir.active(m.ID) < m.Capacity }

// can reports whether the router can give one more conversation to a member that serves.
func (q *queue) can(m *member, seen *round) bool {
	return m.ready <= seen.now && !seen.agents[m.ID] && q.room(m)
}

// choose picks a member of a team for a conversation, "" = nobody now. An excluded agent is passed over as long as there
// is anybody else, even one that is full. Hub.mu is held.
func (r *router) choose(c *store.Conversation, team []*member, seen *round) string {
	q := &r.hub.queue
	settings := q.settings(c.Group)
	others := slices.ContainsFunc(team, func(m *member) bool { return m.ID != c.Excluded })
	var can []*member
	for _, m := range team {
		if q.can(m, seen) && !(others && m.ID == c.Excluded) && !seen.pairs[[2]string{c.ID, m.ID}] {
			can = append(can, m)
		}
	}
	if last, wait := r.last(c, &settings); last != "" {
		if slices.ContainsFunc(can, func(m *member) bool { return m.ID == last }) {
			return r.turnOf(c.Group, last)
		}
		m, l := q.roster.members[last], q.roster.lineOf(c)
		if wait > seen.now && m != nil && m.takesChats() && m.knows(l) && q.sessions.agentThere(last) {
			seen.later = earlier(seen.later, wait)
			return ""
		}
	}
	if len(can) == 0 {
		return ""
	}
	if settings.Strategy == store.RoundRobin {
		return r.turnOf(c.Group, roundRobin(can, r.cursor[c.Group]))
	}
	return r.turnOf(c.Group, leastBusy(can, q.dir.active))
}

func (r *router) turnOf(group, agent string) string {
	r.cursor[group] = agent
	return agent
}

// last returns the agent that should have a conversation because it had it before, and until when the conversation waits
// for it.
func (r *router) last(c *store.Conversation, settings *store.GroupSettings) (agent string, until int64) {
	if c.LastAgent == "" || c.LastAgent == c.Excluded {
		return "", 0
	}
	now := r.hub.o.Now().UnixMilli()
	if settings.Strategy == store.Sticky && now-c.LastAgentAt < settings.StickyFor().Milliseconds() {
		return c.LastAgent, c.QueuedAt + settings.StickyWaits().Milliseconds()
	}
	if c.AssignedAt != 0 && c.AssignedAt < c.QueuedAt {
		return c.LastAgent, 0 // a reopened conversation, only if that is possible at once
	}
	return "", 0
}

// leastBusy returns the agent with the smallest part of its capacity in use. Of equals, it returns the one that has
// waited longest for a conversation.
func leastBusy(can []*member, active func(string) int) string {
	load := func(m *member) float64 { return float64(active(m.ID)) / float64(min(m.Capacity, nominalCapacity)) }
	return slices.MinFunc(can, func(a, b *member) int {
		return cmp.Or(cmp.Compare(load(a), load(b)), cmp.Compare(a.LastAssigned, b.LastAssigned), cmp.Compare(a.ID, b.ID))
	}).ID
}

// roundRobin returns the agent after the one that had the last turn. can is ordered by id.
func roundRobin(can []*member, last string) string {
	for _, m := range can {
		if m.ID > last {
			return m.ID
		}
	}
	return can[0].ID
}

// pace is how fast a queue moves, by the intervals between its latest hand-overs.
type pace struct {
	last      time.Time
	intervals []time.Duration // the latest paceSamples
}

const (
	paceSamples = 20
	paceMinimum = 5 // fewer say nothing
)

func (p *pace) handedOver(now time.Time) {
	if !p.last.IsZero() {
		if len(p.intervals) == paceSamples {
			p.intervals = slices.Delete(p.intervals, 0, 1)
		}
		p.intervals = append(p.intervals, max(now.Sub(p.last), 0))
	}
	p.last = now
}

// estimate returns how long a customer at a position will wait, 0 = too little is known.
func (p *pace) estimate(position int) time.Duration { return p.interval() * time.Duration(position) }

// interval returns the median of the latest hand-overs' intervals, 0 = too little is known.
func (p *pace) interval() time.Duration {
	if p == nil || len(p.intervals) < paceMinimum {
		return 0
	}
	sorted := slices.Sorted(slices.Values(p.intervals))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
