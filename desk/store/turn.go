package store

import "strings"

// TurnState says how far a bot's turn has come.
type TurnState string

// States of a turn.
const (
	TurnAsked    TurnState = "asked"    // begun; the bot is asked, and after a restart again
	TurnAccepted TurnState = "accepted" // the bot will answer later, until Turn.Until
	TurnAnswered TurnState = "answered"
	TurnFailed   TurnState = "failed" // ended without an answer: the bot failed or lost the conversation before
	TurnLate     TurnState = "late"   // answered after it had failed; the answer was discarded
)

// Open reports whether the turn still waits for an answer.
func (s TurnState) Open() bool { return s == TurnAsked || s == TurnAccepted }

// Turn is one thing that a bot must answer: the opening of a conversation, or one message of the customer. The turn
// begins in the same transaction as that event, and has its id.
type Turn struct {
	ID    string
	Conv  string
	Seq   uint64 // of the event
	Epoch int64  // of the conversation when the turn began
	Bot   Actor  // that is asked
	State TurnState
	Until int64 // of TurnAccepted, Unix milliseconds
}

// PendingTurn is a turn that waits for its answer.
type PendingTurn struct {
	Turn  Turn
	Conv  Conversation
	Event Event
	Trace string // of what has begun it, see OutboxRow; "" also if that is not known any more
}

const (
	// PayloadDiscarded marks a note of a bot whose answer came too late.
	PayloadDiscarded = "discarded"
	// PayloadGenerated marks a text that a language model has written.
	PayloadGenerated = "generated"

	maxDiscarded = 8000 // characters, as of any message
)

// Discarded returns what the bot would have said, as the body of a note; "" for nothing.
func (c *BotTurn) Discarded() string {
	var texts []string
	for _, s := range c.Say {
		texts = append(texts, s.Body)
	}
	s := strings.Join(texts, "\n\n")
	if r := []rune(s); len(r) > maxDiscarded {
		s = string(r[:maxDiscarded-1]) + "…"
	}
	return s
}

// BotUsage is what a bot of kind BotAssistant has used on one day.
type BotUsage struct {
	Calls      int64
	Prompt     int64 // tokens that were sent
	Completion int64 // tokens that were written
	Estimated  int64 // of both together, those that the service has not counted
}

// Tokens returns the tokens of both directions.
func (u *BotUsage) Tokens() int64 { return u.Prompt + u.Completion }

// Add adds what more was used.
func (u *BotUsage) Add(more BotUsage) {
	u.Calls += more.Calls
	u.Prompt += more.Prompt
	u.Completion += more.Completion
	u.Estimated += more.Estimated
}
