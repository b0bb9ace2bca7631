package store

import (
	"errors"
	"time"
)

// ErrSnooze refuses a Snooze for too short or too long a time, and one more than an agent may have.
var ErrSnooze = errors.New("store: cannot be snoozed")

// Snooze puts a conversation aside until a time, or brings it back, and says so in a note of the actor. Its agent stays
// the owner, and the conversation takes none of the agent's places meanwhile. It comes back by the first of these: the
// time, a message of the customer, any change of its state or its owner. One that has come back by the time counts as
// waiting for its agent since then.
//
// The agent that has it may do that, with Force any agent; the server itself only brings it back. The errors are ErrClosed,
// ErrForbidden, ErrConflict unless an agent has it and nothing has happened after Seq, and
// ErrSnooze.
type Snooze struct {
	Conv  string
	By    Actor
	Until int64  // Unix milliseconds; 0 = bring it back now
	Seq   uint64 // the last event, 0 = any
	Force bool
}

func (Snooze) command() {}

// Limits of Snooze.
const (
	MinSnooze  = time.Minute
	MaxSnooze  = 366 * 24 * time.Hour
	MaxSnoozed = 200 // conversations of one agent at once
)

// Beginning of the payload of a note that a conversation is put aside, with the time behind it, and the payloads of the
// notes that it is back.
const (
	PayloadSnoozed     = "snoozed:"
	PayloadWokenByTime = "woken:time"
	PayloadWokenByWord = "woken:customer"
	PayloadWoken       = "woken:"
)

// Snoozed reports whether the agent has put the conversation aside.
func (c *Conversation) Snoozed() bool { return c.SnoozedUntil != 0 }
