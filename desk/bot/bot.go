// Package bot is the built-in rules bot: it greets, offers buttons and hands over to a person when asked.
package bot

import (
	"context"
	"strings"
	"unicode"

	"github.com/go-eddy/eddy/desk/store"
)

// Turn is what a bot is asked to answer: the opening of a conversation, or one message of the customer.
type Turn struct {
	Opening bool
	Text    string
	Payload string // value of the pressed button
	Locale  string // of the customer's browser, "" when not known
}

// Reply is the bot's answer. No messages and no hand-off means silence.
type Reply struct {
	Say     []store.Say
	Handoff bool
	Reason  string // of the hand-off, for staff
}

// Bot answers turns. Reply may block, must honour ctx and may be called from any goroutine.
type Bot interface {
	Reply(ctx context.Context, t Turn) (Reply, error)
}

// Rules is the built-in bot. The zero value is ready; it keeps nothing between turns.
type Rules struct{}

var _ Bot = Rules{}

// wantsHuman is the payload of the button, and one of the words, that ask for a person.
const wantsHuman = "human"

// Reply implements Bot. It never fails.
func (Rules) Reply(_ context.Context, t Turn) (Reply, error) {
	words := english()
	if strings.HasPrefix(strings.ToLower(t.Locale), "zh") || hasHan(t.Text) {
		words = chinese()
	}
	switch {
	case t.Opening:
		return Reply{Say: []store.Say{{Body: words.greeting, Buttons: words.buttons()}}}, nil
	case asksForHuman(t):
		return Reply{Say: []store.Say{{Body: words.handoff}}, Handoff: true, Reason: "the customer asked for a person"}, nil
	case t.Payload == "hours":
		return Reply{Say: []store.Say{{Body: words.hours, Buttons: words.buttons()[:1]}}}, nil
	}
	return Reply{Say: []store.Say{{Body: words.help, Buttons: words.buttons()}}}, nil
}

func asksForHuman(t Turn) bool {
	if t.Payload == wantsHuman || strings.Contains(t.Text, "人工") {
		return true
	}
	for _, word := range strings.FieldsFunc(strings.ToLower(t.Text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if word == wantsHuman || word == "agent" {
			return true
		}
	}
	return false
}

func hasHan(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// phrases are the bot's sentences in one language.
type phrases struct {
	greeting, help, handoff, hours string
	personLabel, hoursLabel        string
}

func (p phrases) buttons() []store.Button {
	return []store.Button{{Label: p.personLabel, Value: wantsHuman}, {Label: p.hoursLabel, Value: "hours"}}
}

func english() phrases {
	return phrases{
		greeting:    "Hello! I am the assistant of this site. Ask me something, or talk to a person.",
		help:        "I did not understand that. You can choose below, or write “human” to talk to a person.",
		handoff:     "I am passing you to a person. You can keep writing, it will be seen.",
		hours:       "You can write at any time. A person answers as soon as one is free.",
		personLabel: "Talk to a person",
		hoursLabel:  "When do you answer?",
	}
}

func chinese() phrases {
	return phrases{
		greeting:    "您好！我是本站助手。您可以直接提问，也可以转人工。",
		help:        "抱歉，我没有听懂。请选择下面的选项，或输入“人工”转接客服。",
		handoff:     "正在为您转接人工客服。您可以继续留言，客服会看到。",
		hours:       "您可以随时留言，客服有空时会尽快回复。",
		personLabel: "转人工",
		hoursLabel:  "什么时候回复？",
	}
}
