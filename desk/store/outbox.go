package store

import (
	"cmp"
	"context"
	"slices"
)

// EventType says what an outbox row is about.
type EventType string

// Types of outbox rows. Each change of a conversation is exactly one row, of the first type that fits.
const (
	EventOpened   EventType = "conversation.opened"
	EventClosed   EventType = "conversation.closed"
	EventAssigned EventType = "conversation.assigned" // an agent has it now
	EventState    EventType = "conversation.state"    // every other change of state or owner
	EventTags     EventType = "conversation.tags"
	EventRated    EventType = "conversation.rated"
	EventMessage  EventType = "message.created"
	EventContact  EventType = "contact.changed"

	EventTargetWarned EventType = "target.warned" // see TellTarget
	EventTargetMissed EventType = "target.missed"
)

// Types of outbox rows that only servers are told of. They are not Valid.
const (
	EventAccount EventType = "account" // an agent's account or logins
	EventEnded   EventType = "ended"   // a contact, or logins of it
	EventSetup   EventType = "setup"   // groups, members or sites
	EventHooks   EventType = "hooks"   // webhooks, or what they have to try again
	EventFile    EventType = "file"    // the scanner has decided about a file
	EventAgent   EventType = "agent"   // the status of an agent, or the servers that it is connected to
	EventPresent EventType = "present" // the servers that a customer is connected to
	EventOffer   EventType = "offer"   // a conversation is offered to an agent, or that has ended
)

// EventTypes returns every type that webhooks and programs are told of, in the order of the pages.
func EventTypes() []EventType {
	return []EventType{EventOpened, EventMessage, EventAssigned, EventState, EventClosed, EventTags, EventRated, EventTargetWarned, EventTargetMissed, EventContact}
}

// Valid reports whether webhooks and programs are told of the type.
func (t EventType) Valid() bool { return slices.Contains(EventTypes(), t) }

// TypeOf returns the type of the row for an event of a conversation.
func TypeOf(e *Event) EventType {
	ch := e.Change
	switch {
	case ch == nil:
		return EventMessage
	case ch.From == None:
		return EventOpened
	case ch.State == Closed:
		return EventClosed
	case ch.Owner.Kind == Agent && !ch.Owner.Is(ch.Was):
		return EventAssigned
	}
	return EventState
}

// OutboxRow names something that has happened. It holds no text that somebody wrote, besides tags. The rest is read
// when a program is told.
type OutboxRow struct {
	Seq     int64  // in the order of commits, with gaps, never used again
	First   int64  // number of the first row of the same command
	ID      string // unique for ever
	Type    EventType
	Site    string // id
	Conv    string // "" of those that are about no conversation
	Contact string // of EventAccount and EventAgent the agent, of EventFile the file, of EventOffer the conversation
	Event   uint64 // number in the conversation, 0 of those that are about no entry
	Tags    TagChange
	Target  TargetTold // of EventTargetWarned and EventTargetMissed
	Time    int64      // Unix milliseconds
	Trace   string     // traceparent of the sampled command that has written it, "" = none
}

// TagChange is what an EventTags is about.
type TagChange struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Lane returns what rows are kept in order by: the conversation, or the contact where there is none.
func (r *OutboxRow) Lane() string { return cmp.Or(r.Conv, r.Contact) }

// OutboxPage are rows of the outbox.
type OutboxPage struct {
	Rows  []OutboxRow
	Floor int64 // rows up to this one have been deleted
	Last  int64 // number that was given last, 0 = none
}

// OutboxTrim says which rows of the outbox to delete: those that are older than Before, and those beyond the newest Keep.
type OutboxTrim struct {
	Before int64 // Unix milliseconds
	Keep   int64
	Limit  int // rows of one call
}

// OutboxWrites are about the rows of what has happened, which are written in the transaction of the change. Any goroutine.
type OutboxWrites interface {
	// OutboxNews returns a channel that is closed when rows have been committed after the call.
	OutboxNews() <-chan struct{}
	// TrimOutbox deletes rows, the oldest first. more means that Limit has ended it. It blocks until committed and
	// honours ctx.
	TrimOutbox(ctx context.Context, t OutboxTrim) (more bool, err error)
}

// OutboxReader reads the outbox. Methods block and honour ctx.
type OutboxReader interface {
	// Outbox returns at most limit rows behind one, in order. If OutboxPage.Floor is above after, rows are missing.
	Outbox(ctx context.Context, after int64, limit int) (OutboxPage, error)
}
