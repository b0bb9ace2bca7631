package store

// State is the state of a conversation.
type State string

// States of a conversation. None is "does not exist yet".
const (
	None     State = ""
	InBot    State = "bot"
	Queued   State = "queued"
	Assigned State = "assigned"
	Closed   State = "closed"
)

// Trigger is an event that may move a conversation from one state to another.
type Trigger string

// Triggers.
const (
	OpenWithBot   Trigger = "open_bot"
	OpenForHuman  Trigger = "open_human"
	Handoff       Trigger = "handoff"
	TakeOver      Trigger = "take"
	CustomerClose Trigger = "customer_close"
	AgentClose    Trigger = "agent_close"
)

// Guard is a condition checked in the same transaction as the change.
type Guard uint8

// Guards; a rule may need several.
const (
	ByOwner       Guard = 1 << iota // the actor owns the conversation, else ErrForbidden
	UnderCapacity                   // the actor, an agent, has room for one more, else ErrCapacity
)

// NewOwner says who owns the conversation after the change.
type NewOwner uint8

// Owners after a change.
const (
	Nobody NewOwner = iota
	TheBot
	TheActor
)

// Rule is one row of the state machine.
type Rule struct {
	From    State
	Trigger Trigger
	To      State
	Guard   Guard
	Owner   NewOwner
	Event   string // name of the event that is appended
}

// rules is the whole state machine; a pair that is not here is a conflict.
func rules() [9]Rule {
	return [...]Rule{
		{None, OpenWithBot, InBot, 0, TheBot, "opened"},
		{None, OpenForHuman, Queued, 0, Nobody, "opened"},
		{InBot, Handoff, Queued, ByOwner, Nobody, "handoff"},
		{InBot, TakeOver, Assigned, UnderCapacity, TheActor, "taken"},
		{InBot, CustomerClose, Closed, 0, Nobody, "closed"},
		{Queued, TakeOver, Assigned, UnderCapacity, TheActor, "taken"},
		{Queued, CustomerClose, Closed, 0, Nobody, "closed"},
		{Assigned, CustomerClose, Closed, 0, Nobody, "closed"},
		{Assigned, AgentClose, Closed, ByOwner, Nobody, "closed"},
	}
}

// FindRule returns the row for a state and a trigger; false means the change is a conflict.
func FindRule(from State, t Trigger) (Rule, bool) {
	for _, r := range rules() {
		if r.From == from && r.Trigger == t {
			return r, true
		}
	}
	return Rule{}, false
}

// Apply moves the conversation by one rule at time now (Unix milliseconds) and returns the change to record.
// The guards are the caller's, in the same transaction.
func (r Rule) Apply(c *Conversation, actor, bot Actor, reason string, now int64) Change {
	owner := Actor{}
	switch r.Owner {
	case TheBot:
		owner = bot
	case TheActor:
		owner = actor
	}
	if !owner.Is(c.Owner) || r.From == None {
		c.Epoch++
	}
	from := c.State
	c.State, c.Owner = r.To, owner
	c.Rev++
	switch r.To {
	case Queued:
		c.QueuedAt = now
	case Assigned:
		c.AssignedAt = now
	case Closed:
		c.ClosedAt, c.CloseReason = now, reason
	}
	if r.From == None {
		c.OpenedAt = now
	}
	return Change{Event: r.Event, From: from, State: c.State, Rev: c.Rev, Epoch: c.Epoch, Owner: c.Owner, Reason: reason}
}
