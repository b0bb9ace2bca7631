package store

// State is the state of a conversation.
type State string

// States of a conversation. None means that it does not exist yet.
const (
	None     State = ""
	InBot    State = "bot"
	Queued   State = "queued"
	Assigned State = "assigned"
	Deferred State = "deferred" // a left message: the customer waits for an answer, but not in the queue
	Closed   State = "closed"
)

// Trigger is an event that may move a conversation from one state to another.
type Trigger string

// Triggers.
const (
	OpenWithBot   Trigger = "open_bot"
	OpenForHuman  Trigger = "open_human"
	LeaveMessage  Trigger = "leave_message"  // the customer writes for later, because nobody is there
	Handoff       Trigger = "handoff"        // to the queue, by the bot or the customer
	TakeOver      Trigger = "take"           // an agent makes the conversation its own
	Assign        Trigger = "assign"         // the router, or a supervisor, gives it to Move.To
	Seize         Trigger = "seize"          // a supervisor takes it from its owner
	TransferAgent Trigger = "transfer_agent" // the owner passes it on to Move.To
	TransferGroup Trigger = "transfer_group" // the owner passes it on to the queue of Move.Group
	Return        Trigger = "return"         // the owner gives it back to the queue
	OwnerGone     Trigger = "owner_gone"     // the owner is offline or away for too long
	NoAnswer      Trigger = "no_answer"      // the owner did not say anything in time
	CustomerClose Trigger = "customer_close"
	AgentClose    Trigger = "agent_close"
	Idle          Trigger = "idle"    // nobody has written for long
	Abandon       Trigger = "abandon" // the customer left the queue, or the hours ended
	Block         Trigger = "block"   // the contact was blocked or erased
	ReopenToQueue Trigger = "reopen"
	ReopenToBot   Trigger = "reopen_bot"
)

// Guard is a condition of a rule. Conditions are checked in the same transaction as the change.
type Guard uint16

// Guards. One of those that begin with By must hold, and all of the others.
const (
	ByCustomer   Guard = 1 << iota // the actor is the customer, else ErrForbidden
	ByOwner                        // the actor is the bot or agent that owns the conversation, else ErrForbidden
	ByStaff                        // the actor is an agent, else ErrForbidden
	BySystem                       // the actor is the server itself, else ErrForbidden
	BySupervisor                   // the actor is an agent that may override (Input.Force), else ErrForbidden
	HasRoom                        // the new owner has room for one more, else ErrCapacity: the store checks it where it takes the place
	InGroup                        // the new owner belongs to the conversation's group, if it has one, else ErrForbidden
	Elsewhere                      // the new owner is not the present one, else ErrConflict
	Unanswered                     // the customer waits for an answer, else ErrConflict
	NoReply                        // the owner has not said anything yet, else ErrConflict
	InWindow                       // the site still lets it be reopened, else ErrClosed
	OnlyOne                        // the contact has no other open conversation, else ErrClosed
)

// Effect is what a rule does besides changing state and owner.
type Effect uint8

// Effects.
const (
	Enqueue   Effect = 1 << iota // enters the queue at its end
	Requeue                      // enters the queue at its old place, because it keeps the original time
	Exclude                      // the next automatic assignment passes over the agent that had the conversation
	Regroup                      // changes to the group of the input
	Prefer                       // has precedence in the queue
	Abandoned                    // is counted apart from those that were served
)

// NewOwner says who owns the conversation after the change.
type NewOwner uint8

// Owners after a change.
const (
	Nobody   NewOwner = iota
	TheActor          // Input.By
	TheOther          // Input.To
)

// Rule is one row of the state machine.
type Rule struct {
	From    State
	Trigger Trigger
	To      State
	Owner   NewOwner
	Guard   Guard
	Effect  Effect
	Event   string // name of the event that is appended
}

// rules returns the whole state machine. A pair of state and trigger that is not in it is a conflict.
func rules() [32]Rule {
	const (
		starts  = ByCustomer | BySystem
		joins   = HasRoom | InGroup
		blocks  = ByStaff | BySystem
		reopens = ByCustomer | ByStaff | BySystem | InWindow | OnlyOne
		owns    = ByOwner | BySupervisor
		lost    = Requeue | Exclude
	)
	return [...]Rule{
		{None, OpenWithBot, InBot, TheOther, starts, 0, "opened"},
		{None, OpenForHuman, Queued, Nobody, starts, Enqueue, "opened"},
		{None, LeaveMessage, Deferred, Nobody, ByCustomer, 0, "opened"},

		{InBot, Handoff, Queued, Nobody, ByOwner | ByCustomer | BySystem, Enqueue, "handoff"},
		{InBot, LeaveMessage, Deferred, Nobody, ByCustomer, 0, "deferred"},
		{InBot, TakeOver, Assigned, TheActor, ByStaff | joins, 0, "taken"},
		{InBot, CustomerClose, Closed, Nobody, ByCustomer, 0, "closed"},
		{InBot, Idle, Closed, Nobody, BySystem, 0, "closed"},
		{InBot, Block, Closed, Nobody, blocks, 0, "closed"},

		{Queued, Assign, Assigned, TheOther, BySystem | BySupervisor | joins, 0, "assigned"},
		{Queued, TakeOver, Assigned, TheActor, ByStaff | joins, 0, "taken"},
		{Queued, LeaveMessage, Deferred, Nobody, ByCustomer, 0, "deferred"},
		{Queued, CustomerClose, Closed, Nobody, ByCustomer, Abandoned, "closed"},
		{Queued, Abandon, Closed, Nobody, BySystem, Abandoned, "closed"},
		{Queued, Block, Closed, Nobody, blocks, 0, "closed"},

		{Deferred, Handoff, Queued, Nobody, ByCustomer, Enqueue, "handoff"},
		{Deferred, Assign, Assigned, TheOther, BySupervisor | joins, 0, "assigned"},
		{Deferred, TakeOver, Assigned, TheActor, ByStaff | joins, 0, "taken"},
		{Deferred, CustomerClose, Closed, Nobody, ByCustomer, 0, "closed"},
		{Deferred, Block, Closed, Nobody, blocks, 0, "closed"},

		{Assigned, Seize, Assigned, TheActor, BySupervisor | joins | Elsewhere, 0, "taken"},
		{Assigned, TransferAgent, Assigned, TheOther, owns | HasRoom | Elsewhere, 0, "transferred"},
		{Assigned, TransferGroup, Queued, Nobody, owns, Requeue | Regroup, "transferred"},
		{Assigned, Return, Queued, Nobody, owns, Requeue, "returned"},
		{Assigned, OwnerGone, Queued, Nobody, BySystem | Unanswered, lost, "returned"},
		{Assigned, NoAnswer, Queued, Nobody, BySystem | NoReply, lost, "returned"},
		{Assigned, CustomerClose, Closed, Nobody, ByCustomer, 0, "closed"},
		{Assigned, AgentClose, Closed, Nobody, owns, 0, "closed"},
		{Assigned, Idle, Closed, Nobody, BySystem, 0, "closed"},
		{Assigned, Block, Closed, Nobody, blocks, 0, "closed"},

		{Closed, ReopenToQueue, Queued, Nobody, reopens, Enqueue | Prefer, "reopened"},
		{Closed, ReopenToBot, InBot, TheOther, reopens, Prefer, "reopened"},
	}
}

// FindRule returns the rule for a state and a trigger; false means that the change is a conflict.
func FindRule(from State, t Trigger) (Rule, bool) {
	for _, r := range rules() {
		if r.From == from && r.Trigger == t {
			return r, true
		}
	}
	return Rule{}, false
}

// Input is a trigger with everything that its rule may look at. The facts are read in the transaction of the change.
type Input struct {
	Trigger Trigger
	By      Actor
	To      Actor  // the new owner of Assign and TransferAgent; the bot of OpenWithBot and ReopenToBot
	Group   string // of TransferGroup
	Reason  string
	Force   bool  // the actor may override owner, group and capacity
	Now     int64 // Unix milliseconds

	ClientID string // of the event that is appended

	Member bool  // fact for InGroup
	Alone  bool  // fact for OnlyOne
	Window int64 // fact for InWindow: milliseconds after the close

	Away  Unserved // says whether anybody serves the queue; nil = somebody does
	Later bool     // fact: nobody does
}

// Seats are the places of agents that a change frees and takes; "" means none.
type Seats struct {
	Freed string
	Taken string
	Over  bool // taken beyond the capacity, too
	Aside bool // the one that is freed was not counted, because the conversation was put aside
}

// Step decides what a trigger does to a conversation. It returns the conversation as it will be, the change to record
// and the places to free and take. Step changes nothing itself. The errors are ErrConflict, ErrForbidden and ErrClosed.
// ErrCapacity comes from the store, because only taking the place shows it.
func Step(c Conversation, in Input) (Conversation, Change, Seats, error) {
	r, ok := FindRule(c.State, in.Trigger)
	if !ok {
		return c, Change{}, Seats{}, ErrConflict
	}
	if err := r.check(&c, &in); err != nil {
		return c, Change{}, Seats{}, err
	}
	next := r.apply(c, &in)
	change := Change{
		Event: r.event(next.State), From: c.State, State: next.State, Rev: next.Rev, Epoch: next.Epoch, Owner: next.Owner, Was: c.Owner,
		Group: next.Group, Reason: in.Reason, Abandoned: next.Abandoned,
	}
	var seats Seats
	if !next.Owner.Is(c.Owner) {
		seats = Seats{Freed: seatOf(c.Owner), Taken: seatOf(next.Owner), Aside: c.Snoozed()}
		seats.Over = in.Force && seats.Taken != ""
	}
	return next, change, seats, nil
}

func seatOf(a Actor) string {
	if a.Kind != Agent {
		return ""
	}
	return a.ID
}

func (r *Rule) check(c *Conversation, in *Input) error {
	fails := func(g Guard, holds bool) bool { return r.Guard&g != 0 && !holds }
	switch {
	case !r.allows(c, in):
		return ErrForbidden
	case fails(InWindow, in.Now-c.ClosedAt < in.Window), fails(OnlyOne, in.Alone):
		return ErrClosed
	case fails(Unanswered, c.WaitingSince != 0), fails(NoReply, c.RepliedAt == 0), fails(Elsewhere, !r.newOwner(in).Is(c.Owner)):
		return ErrConflict
	case fails(InGroup, c.Group == "" || in.Member || in.Force):
		return ErrForbidden
	case r.Owner == TheOther && r.To == Assigned && in.To.Kind != Agent, r.To == InBot && in.To.Kind != Bot:
		return ErrForbidden
	}
	return nil
}

func (r *Rule) allows(c *Conversation, in *Input) bool {
	switch {
	case r.Guard&ByOwner != 0 && !c.Owner.IsZero() && in.By.Is(c.Owner):
		return true
	case in.By.Kind == Customer:
		return r.Guard&ByCustomer != 0 && in.By.ID == c.Contact
	case in.By.Kind == Agent:
		return r.Guard&ByStaff != 0 || (in.Force && r.Guard&BySupervisor != 0)
	case in.By.Kind == System:
		return r.Guard&BySystem != 0
	}
	return false
}

func (r *Rule) newOwner(in *Input) Actor {
	switch r.Owner {
	case TheActor:
		return in.By
	case TheOther:
		return in.To
	}
	return Actor{}
}

// to returns the state after the change. What a customer has left for later goes back there instead of the queue, unless
// the customer itself asks for the queue, and is never abandoned.
func (r *Rule) to(c *Conversation, in *Input) State {
	later := false
	switch {
	case c.ReplyTo == "":
	case r.Trigger == Abandon:
		later = true
	case r.Trigger == ReopenToQueue:
		later = in.By.Kind != Customer || in.Later
	case r.To == Queued:
		later = r.Effect&Enqueue == 0 && c.QueuedAt == 0
	}
	if later {
		return Deferred
	}
	return r.To
}

// event returns the name of the change that has led to a state.
func (r *Rule) event(to State) string {
	if to == Deferred && r.To == Closed {
		return "deferred"
	}
	return r.Event
}

func (r *Rule) apply(c Conversation, in *Input) Conversation {
	before := c.Owner
	c.State, c.Owner = r.to(&c, in), r.newOwner(in)
	c.Rev++
	if r.From == None {
		c.OpenedAt = in.Now
	}
	if !c.Owner.Is(before) || r.From == None {
		c.Epoch++
		c.RepliedAt = 0
	}
	c.ClosedAt, c.CloseReason, c.Abandoned = 0, "", c.State == Closed && r.Effect&Abandoned != 0
	c.LeftAt, c.SnoozedUntil = 0, 0
	switch c.State {
	case Queued:
		if r.Effect&Enqueue != 0 || c.QueuedAt == 0 {
			c.QueuedAt, c.Relaxed = in.Now, false
		}
	case Assigned:
		c.AssignedAt, c.LastAgent, c.LastAgentAt, c.Excluded = in.Now, c.Owner.ID, in.Now, ""
	case Deferred:
		c.QueuedAt = 0
	case Closed:
		c.ClosedAt, c.CloseReason, c.WaitingSince = in.Now, in.Reason, 0
	}
	if r.Effect&Exclude != 0 {
		c.Excluded = before.ID
	}
	if r.Effect&Regroup != 0 {
		c.Group = in.Group
	}
	if r.Effect&Prefer != 0 {
		c.Priority = min(c.Priority, PriorityReopened)
	}
	return c
}

// Forced returns the trigger for what a supervisor asks for on an owned conversation. A TakeOver becomes a Seize, an
// Assign a TransferAgent.
func (t Trigger) Forced(from State, force bool) Trigger {
	switch {
	case !force || from != Assigned:
		return t
	case t == TakeOver:
		return Seize
	case t == Assign:
		return TransferAgent
	}
	return t
}

// Said records the text of a participant: who waits for an answer, and whether the agent has replied.
func (c *Conversation) Said(by ActorKind, at int64) {
	switch {
	case by != Customer:
		c.WaitingSince = 0
		if by == Agent && c.RepliedAt == 0 {
			c.RepliedAt = at
		}
	case c.WaitingSince == 0:
		c.WaitingSince = at
	}
}

// Unanswered reports whether the customer waits for an agent's first text since the conversation was opened or queued
// last, and since when. What another agent has said before a transfer counts.
func (c *Conversation) Unanswered() (since int64, waits bool) {
	since = c.QueuedAt
	if since == 0 {
		since = c.AssignedAt
	}
	return since, c.AnsweredAt < max(c.QueuedAt, c.OpenedAt)
}
