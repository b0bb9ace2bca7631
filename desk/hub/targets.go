package hub

import (
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Warnings of a group that misses its target.
const (
	WarnWaiting = "waiting" // somebody waits for a first answer for longer than the target
	WarnShare   = "share"   // too few of the last hour's first answers were in time
)

const (
	targetPause  = time.Second // between two looks
	targetHold   = time.Minute // for which nobody may wait too long until the warning ends
	targetWindow = 60          // minutes that the share is taken of
	targetLeast  = 5           // first answers in them until there is a warning about the share
	targetMargin = 5           // percent above the target until that warning ends
)

// Target is how a group stands with its target for first answers. Times are milliseconds.
type Target struct {
	Group    string   `json:"group"`
	In       int64    `json:"in"`       // the time in which a first answer is wanted
	Percent  int      `json:"percent"`  // of the customers that shall get one
	Late     int      `json:"late"`     // customers who wait longer now
	Answered int      `json:"answered"` // first answers in the last hour, since the start at most
	Within   int      `json:"within"`   // of those, in time
	Warnings []string `json:"warnings"`
}

// answers are the first answers of one minute.
type answers struct {
	minute      int64
	all, within int
}

// aim is the hub's memory of how a group has stood. Hub.mu guards it.
type aim struct {
	minutes [targetWindow]answers
	waiting bool
	share   bool
	lateAt  int64 // when somebody waited too long last
}

func (a *aim) add(at int64, within bool) {
	minute := at / time.Minute.Milliseconds()
	m := &a.minutes[minute%targetWindow]
	if m.minute != minute {
		*m = answers{minute: minute}
	}
	m.all++
	if within {
		m.within++
	}
}

// hour returns the first answers of the last hour, and of those how many were in time.
func (a *aim) hour(now int64) (all, within int) {
	minute := now / time.Minute.Milliseconds()
	for _, m := range a.minutes {
		if m.minute > minute-targetWindow && m.minute <= minute {
			all, within = all+m.all, within+m.within
		}
	}
	return all, within
}

// targets are the aims of the groups. Hub.mu guards them.
type targets struct {
	aims   map[string]*aim
	looked int64 // when they were looked at last
}

func (t *targets) of(group string) *aim {
	if t.aims[group] == nil {
		t.aims[group] = &aim{}
	}
	return t.aims[group]
}

// answered notes the first answer that a change of a conversation brings.
func (q *queue) answered(before, c *store.Conversation) {
	if before.ID == "" || c.AnsweredAt == before.AnsweredAt || c.ActedAt == 0 {
		return
	}
	g := q.settings(c.Group)
	if _, in := g.Answers(); in > 0 {
		since, _ := c.Unanswered()
		q.targets.of(c.Group).add(c.AnsweredAt, c.AnsweredAt-since <= in.Milliseconds())
	}
}

// aiming plans what programs are told about the target of a conversation's group.
func (q *queue) aiming(n *next, c *store.Conversation) {
	g := q.roster.groups[c.Group].Settings
	_, in := g.Answers()
	if due := c.NextTarget(in); due != 0 {
		n.sooner(due, func() store.Command { return store.TellTarget{Conv: c.ID} })
	}
}

// standings returns how each group with a target stands now, and when a customer will have waited too long, 0 = none of
// them. It changes nothing.
func (q *queue) standings(now int64) (all map[string]*Target, due int64) {
	all = make(map[string]*Target)
	for id, g := range q.roster.groups {
		if percent, in := g.Settings.Answers(); in > 0 {
			all[id] = &Target{Group: id, In: in.Milliseconds(), Percent: percent, Warnings: []string{}}
		}
	}
	if len(all) == 0 {
		return all, 0
	}
	for _, e := range q.dir.open {
		c := &e.conv
		t := all[c.Group]
		since, counts := c.Aimed()
		if t == nil || !counts {
			continue
		}
		if end := since + t.In; now > end {
			t.Late++
		} else {
			due = earlier(due, end+1)
		}
	}
	for id, t := range all {
		a := q.targets.aims[id]
		if a == nil {
			continue
		}
		t.Answered, t.Within = a.hour(now)
		if a.waiting {
			t.Warnings = append(t.Warnings, WarnWaiting)
		}
		if a.share {
			t.Warnings = append(t.Warnings, WarnShare)
		}
	}
	return all, due
}

// crossed is a warning that begins or ends.
type crossed struct {
	Target
	name, why string
	begins    bool
}

// review finds the warnings that begin or end now, and when it has to be called again, 0 = after the next change. Each
// warning ends later than it might, so that it does not come and go.
func (q *queue) review(now int64) (news []crossed, due int64) {
	all, due := q.standings(now)
	for id, t := range all {
		a := q.targets.of(id)
		tell := func(warned *bool, is bool, why string) {
			if *warned != is {
				*warned = is
				news = append(news, crossed{*t, q.roster.groups[id].Name, why, is})
			}
		}
		if t.Late > 0 {
			a.lateAt = now
		}
		held := a.lateAt + targetHold.Milliseconds()
		tell(&a.waiting, t.Late > 0 || a.waiting && now < held, WarnWaiting)
		if a.waiting && t.Late == 0 {
			due = earlier(due, held)
		}
		want := t.Percent
		if a.share {
			want = min(want+targetMargin, 100)
		}
		tell(&a.share, t.Within*100 < want*t.Answered && (a.share || t.Answered >= targetLeast), WarnShare)
		if t.Answered > 0 {
			due = earlier(due, now+time.Minute.Milliseconds())
		}
	}
	for id := range q.targets.aims {
		if all[id] == nil {
			delete(q.targets.aims, id)
		}
	}
	return news, due
}

// checkTargets reviews the targets, at most once in a targetPause. One of several servers tells the log. It returns when
// it is to be called again.
func (h *Hub) checkTargets(now int64, says bool) (due int64) {
	h.mu.Lock()
	q := &h.queue
	next := q.targets.looked + targetPause.Milliseconds()
	if now >= q.targets.looked && now < next {
		defer h.mu.Unlock()
		for _, g := range q.roster.groups {
			if _, in := g.Settings.Answers(); in > 0 {
				return next
			}
		}
		return 0
	}
	q.targets.looked = now
	news, due := q.review(now)
	h.mu.Unlock()
	if !says {
		return due
	}
	for i := range news {
		n := &news[i]
		say, text := h.o.Logger.Info, "desk: a group meets its target for first answers again"
		if n.begins {
			h.Counters.TargetMisses.Add(1)
			say, text = h.o.Logger.Warn, "desk: a group misses its target for first answers"
		}
		say(text, "group", n.name, "why", n.why, "late", n.Late, "answered", n.Answered, "in_time", n.Within, "percent", n.Percent, "target", time.Duration(n.In)*time.Millisecond)
	}
	return due
}
