// Package bot answers customers before people do: by the rules of its settings (Rules), by asking a program of the
// site's owner over HTTP (Webhook), or with the text that a language model writes (Assistant).
package bot

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

// Turn is what a bot is asked to answer: the opening of a conversation, or one message of the customer.
type Turn struct {
	ID         string // a turn that is asked again has the same id
	Conv       string
	Epoch      int64
	Opening    bool
	Text       string
	Payload    string            // value of the pressed button
	Locale     string            // of the customer's browser, "" when not known
	History    []store.Event     // the newest events of the conversation, oldest first
	Attributes map[string]string // of the contact
	Trace      string            // traceparent that the request takes along, "" = none
}

// Reply is the bot's answer. A Reply without messages and hand-off means silence.
type Reply struct {
	Say        []store.Say // at most store.MaxBotMessages
	Handoff    bool
	Reason     string            // of the hand-off, for staff
	Summary    string            // for the agent, with a hand-off: what was asked and collected
	Attributes map[string]string // added to the contact
}

// Bot answers turns. Reply may block and must honour ctx. Any goroutine may call it.
type Bot interface {
	Reply(ctx context.Context, t Turn) (Reply, error)
}
