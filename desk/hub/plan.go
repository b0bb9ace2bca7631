package hub

import (
	"container/heap"
	"errors"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// reasonIdle and the others are reasons of changes that the server makes by itself, as customers and agents see them.
const (
	reasonIdle      = "idle"
	reasonLeft      = "left"
	reasonNoAnswer  = "no_answer"
	reasonAgentGone = "agent_gone"
	idleWarning     = "idle_warning"
)

var system = store.Actor{Kind: store.System}

// plan orders the open conversations by the time at which a timer looks at them. Each is in it at most once. Hub.mu
// guards it.
type plan []*entry

func (p plan) Len() int           { return len(p) }
func (p plan) Less(i, j int) bool { return p[i].due < p[j].due }
func (p plan) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].slot, p[j].slot = i, j
}

func (p *plan) Push(x any) {
	e := x.(*entry)
	e.slot = len(*p)
	*p = append(*p, e)
}

func (p *plan) Pop() any {
	last := len(*p) - 1
	e := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	e.slot = -1
	return e
}

// set moves a conversation to its new time; 0 removes it.
func (p *plan) set(e *entry, due int64) {
	e.due = due
	switch {
	case due == 0:
		p.drop(e)
	case e.slot < 0:
		heap.Push(p, e)
	default:
		heap.Fix(p, e.slot)
	}
}

func (p *plan) drop(e *entry) {
	if e.slot >= 0 {
		heap.Remove(p, e.slot)
	}
}

// next is what the timers will do to a conversation if nothing else happens: the time and the command.
type next struct {
	due int64
	cmd func() store.Command
}

// sooner keeps the earlier of two actions.
func (n *next) sooner(due int64, cmd func() store.Command) {
	if n.due == 0 || due < n.due {
		n.due, n.cmd = due, cmd
	}
}

// upcoming returns what the timers will do to a conversation. Nothing falls due within a grace after the start, so
// that clients can come back first.
func (q *queue) upcoming(e *entry) next {
	var n next
	c := e.conv
	site := q.roster.sites[c.Site].Settings
	switch c.State {
	case store.InBot:
		q.idle(&n, &c, site.BotIdle(), site.Warning())
	case store.Queued:
		if wait := site.QueueIdle(); wait > 0 && e.left != 0 {
			n.sooner(max(e.left, c.QueuedAt)+wait.Milliseconds(), func() store.Command {
				return store.Move{Conv: c.ID, Trigger: store.Abandon, By: system, Seq: c.LastSeq, Reason: reasonLeft}
			})
		}
	case store.Assigned:
		q.unanswered(&n, &c)
		if c.Snoozed() {
			q.waking(&n, &c)
		} else if c.WaitingSince == 0 { // a customer who waits for an agent is not closed
			q.idle(&n, &c, site.ChatIdle(), site.Warning())
		}
	}
	if n.due != 0 {
		n.due = max(n.due, q.since+q.o.Limits.AgentGrace.Milliseconds())
	}
	if c.State == store.Queued { // whoever comes back is of no account here
		q.relaxing(&n, e)
	}
	q.aiming(&n, &c)
	return n
}

// idle plans the warning and, after it, the close.
func (q *queue) idle(n *next, c *store.Conversation, after, warning time.Duration) {
	if after <= 0 {
		return
	}
	conv, seq := c.ID, c.LastSeq
	if c.WarnedAt != 0 {
		n.sooner(c.WarnedAt+warning.Milliseconds(), func() store.Command {
			return store.Move{Conv: conv, Trigger: store.Idle, By: system, Seq: seq, Reason: reasonIdle}
		})
		return
	}
	n.sooner(c.At+after.Milliseconds(), func() store.Command {
		return store.Warn{Conv: conv, Seq: seq, Body: "This conversation will be closed in " + inWords(warning) + " unless somebody writes.", Payload: idleWarning}
	})
}

func inWords(d time.Duration) string {
	unit, n := "second", int64((d+time.Second-1)/time.Second)
	if d >= time.Minute {
		unit, n = "minute", int64((d+time.Minute-1)/time.Minute)
	}
	if n != 1 {
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}

// unanswered plans the return to the queue of a conversation that its agent does not answer.
func (q *queue) unanswered(n *next, c *store.Conversation) {
	move := store.Move{Conv: c.ID, By: system, Rev: c.Rev}
	settings := q.settings(c.Group)
	if wait := settings.AcceptIn(); wait > 0 && c.RepliedAt == 0 {
		move.Trigger, move.Reason = store.NoAnswer, reasonNoAnswer
		noAnswer := move
		n.sooner(c.AssignedAt+wait.Milliseconds(), func() store.Command { return noAnswer })
	}
	m := q.roster.members[c.Owner.ID]
	switch {
	case c.WaitingSince == 0 || c.Snoozed():
		return
	case q.sessions.agentThere(c.Owner.ID):
		q.awayFrom(n, c, m)
		return
	}
	gone := c.AssignedAt
	if m != nil {
		gone = max(gone, m.GoneAt)
	}
	move.Trigger, move.Reason = store.OwnerGone, reasonAgentGone
	n.sooner(gone+q.o.Limits.AgentGrace.Milliseconds(), func() store.Command { return move })
}

// replan sets the time at which a timer looks at a conversation.
func (q *queue) replan(e *entry) {
	was := q.dir.plan.first()
	q.dir.plan.set(e, q.upcoming(e).due)
	if first := q.dir.plan.first(); first != 0 && (was == 0 || first < was) {
		q.router.wake()
	}
}

// first returns when the first conversation falls due, 0 = never.
func (p plan) first() int64 {
	if len(p) == 0 {
		return 0
	}
	return p[0].due
}

// replanOf is replan for every conversation of an agent.
func (q *queue) replanOf(agent string) {
	for _, e := range q.dir.byAgent[agent] {
		q.replan(e)
	}
}

// fire starts the actions that have fallen due, at most routeBatch at once. It returns when the next one is due, 0 =
// never.
func (h *Hub) fire(now int64, d *duty) (due int64) {
	type action struct {
		conv string
		cmd  store.Command
	}
	var actions []action
	h.mu.Lock()
	p := &h.queue.dir.plan
	for len(*p) > 0 && (*p)[0].due <= now && len(actions) < routeBatch {
		e := (*p)[0]
		n := h.queue.upcoming(e)
		if n.due == 0 || n.due > now {
			p.set(e, n.due)
			continue
		}
		p.set(e, now+actionRetry.Milliseconds())
		actions = append(actions, action{e.conv.ID, n.cmd()})
	}
	due = p.first()
	h.mu.Unlock()
	for _, a := range actions {
		h.act(a.conv, d.lease.Command(a.cmd))
	}
	return due
}

// act runs the command of a timer in the lane of its conversation. A conversation whose command is refused or fails is
// looked at again later.
func (h *Hub) act(conv string, cmd store.Command) {
	h.Counters.Timers.Add(1)
	h.execute(conv, cmd, func(out store.Outcome) {
		if out.Err == nil || errors.Is(out.Err, store.ErrLeased) {
			return
		}
		if e, known := storeError(out.Err, &out.Conv, store.StaffSide); !known {
			h.o.Logger.Error("desk: a timer failed", "conversation", conv, "err", e)
		}
	}, func(*proto.Error) {})
}

// customerMoved notes that the last connection of a customer has ended, or that the first one has come.
func (q *queue) customerMoved(contact string) {
	there, now := q.sessions.customerThere(contact), q.o.Now().UnixMilli()
	for _, e := range q.dir.byContact[contact] {
		switch {
		case there:
			e.left = 0
		case e.left == 0:
			e.left = now
		}
		q.replan(e)
	}
}

// customerHere notes that the last connection of a customer to this server has ended, or that the first one has come, and
// returns what must be stored.
func (q *queue) customerHere(contact string) (keep []store.Leave) {
	q.moves(contact)
	q.customerMoved(contact)
	for _, e := range q.dir.byContact[contact] {
		if gone := e.left != 0; e.conv.State == store.Queued && gone != e.leftKept {
			e.leftKept = gone
			keep = append(keep, store.Leave{Conv: e.conv.ID, At: e.left})
		}
	}
	return keep
}

// absent returns what must be stored of a conversation that waits for an agent while its customer is gone. e may be nil.
// Hub.mu is held.
func (e *entry) absent() []store.Leave {
	if e == nil || e.conv.State != store.Queued || e.left == 0 || e.leftKept {
		return nil
	}
	e.leftKept = true
	return []store.Leave{{Conv: e.conv.ID, At: e.left}}
}

// keepLeft stores when customers that wait went away.
func (h *Hub) keepLeft(keep []store.Leave) {
	for _, l := range keep {
		h.execute(l.Conv, l, func(store.Outcome) {}, func(*proto.Error) {})
	}
}
