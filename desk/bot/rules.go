package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-eddy/eddy/desk/store"
)

// Rules answers by its settings. It keeps nothing between turns. What it has to remember is in the memo of its own last
// message, so that it goes on where it was after a restart. Any goroutine may use it.
type Rules struct {
	c        *RulesConfig
	keywords [][]keyword // of each rule
}

var _ Bot = (*Rules)(nil)

// NewRules returns a bot with checked settings (ParseRules), which must not be changed any more.
func NewRules(c *RulesConfig) *Rules {
	b := &Rules{c: c}
	for i := range c.Rules {
		var list []keyword
		for _, k := range c.Rules[i].Keywords {
			list = append(list, newKeyword(k))
		}
		b.keywords = append(b.keywords, list)
	}
	return b
}

// memo is what the bot has to remember until the customer's next message.
type memo struct {
	Unknown int    `json:"unknown,omitempty"` // messages in a row that no rule fitted
	Field   string `json:"field,omitempty"`   // the field that was asked for
	Tries   int    `json:"tries,omitempty"`   // invalid answers to it
	Rule    string `json:"rule,omitempty"`    // the rule that asks; "" = the hand-off after Unknown.Limit
}

// recall reads the memo of the bot's last message since the bot has had the conversation. That of another bot is none.
func recall[T any](history []store.Event) (m T) {
	for i := len(history) - 1; i >= 0; i-- {
		e := &history[i]
		if e.Kind == store.KindEvent {
			break
		}
		if e.Kind == store.KindText && e.From.Kind == store.Bot {
			if json.Unmarshal([]byte(e.Memo), &m) != nil {
				var none T
				return none
			}
			break
		}
	}
	return m
}

func (m memo) String() string {
	if m == (memo{}) {
		return ""
	}
	b, _ := json.Marshal(m) // strings and numbers cannot fail
	return string(b)
}

// talk is one turn being answered.
type talk struct {
	*Rules
	t         Turn
	language  string
	collected map[string]string
}

// Reply implements Bot. It never fails.
func (b *Rules) Reply(_ context.Context, t Turn) (Reply, error) {
	r, _ := b.Explain(t)
	return r, nil
}

// Why says what has decided a reply. The zero value means that no rule fits.
type Why struct {
	Greeting bool
	Rule     string // the rule that fits, or the one that asks for Field
	Field    string // the text was taken as the answer to this field
}

// Explain answers as Reply does, and says why.
func (b *Rules) Explain(t Turn) (Reply, Why) {
	k := &talk{Rules: b, t: t, language: spoken(&t)}
	if t.Opening {
		return Reply{Say: b.Greet(t.Locale)}, Why{Greeting: true}
	}
	m := recall[memo](t.History)
	rule := b.find(t.Text, t.Payload)
	if asked := b.c.field(m.Field); asked != nil && (rule == nil || (t.Payload == "" && !rule.Handoff)) {
		if ask, known := b.asking(m.Rule); known && slices.Contains(ask, m.Field) {
			return k.answered(m, asked, ask), Why{Rule: m.Rule, Field: m.Field}
		}
	}
	if rule != nil {
		return k.enter(rule.Name, rule.Ask), Why{Rule: rule.Name}
	}
	m = memo{Unknown: m.Unknown + 1}
	if limit := b.c.Unknown.Limit; limit > 0 && m.Unknown >= limit {
		return k.enter("", b.c.Unknown.Ask), Why{}
	}
	return k.say(m, b.c.Buttons, b.c.Unknown.Say), Why{}
}

// Greet returns what the bot says first, in the language of a locale.
func (b *Rules) Greet(locale string) []store.Say {
	k := &talk{Rules: b, language: languageOf("", locale)}
	return k.say(memo{}, b.c.Buttons, b.c.Greeting).Say
}

// spoken returns the language of a turn: Chinese for a customer who has written it to this bot, else that of the
// browser.
func spoken(t *Turn) string {
	text := t.Text
	for i := len(t.History) - 1; i >= 0 && t.History[i].Kind != store.KindEvent; i-- {
		if e := &t.History[i]; e.Kind == store.KindText && e.From.Kind == store.Customer {
			text += e.Body
		}
	}
	return languageOf(text, t.Locale)
}

// find returns the rule of a pressed button, else the first whose keywords are in the text, else nil.
func (b *Rules) find(text, payload string) *Rule {
	if payload != "" {
		if r := b.c.rule(payload); r != nil {
			return r
		}
	}
	folded := fold(text)
	all := words(folded)
	for i := range b.c.Rules {
		if slices.ContainsFunc(b.keywords[i], func(k keyword) bool { return k.in(folded, all) }) {
			return &b.c.Rules[i]
		}
	}
	return nil
}

// asking returns the fields that a rule asks for, or the hand-off after Unknown.Limit if rule is "". known is false for
// a rule that is gone.
func (b *Rules) asking(rule string) (ask []string, known bool) {
	if rule == "" {
		return b.c.Unknown.Ask, true
	}
	if r := b.c.rule(rule); r != nil {
		return r.Ask, true
	}
	return nil, false
}

// enter begins a rule, with the first unknown field that it asks for, or with its reply.
func (k *talk) enter(rule string, ask []string) Reply {
	for _, name := range ask {
		if k.t.Attributes[name] == "" && k.collected[name] == "" {
			return k.say(memo{Field: name, Rule: rule}, nil, k.c.field(name).Ask)
		}
	}
	return k.finish(rule)
}

// answered takes the customer's answer to a field and goes on with the next, asks again, or goes on without it.
func (k *talk) answered(m memo, f *Field, ask []string) Reply {
	rest := ask[slices.Index(ask, f.Name)+1:]
	value, ok := f.Parse(k.t.Text)
	if !ok {
		if m.Tries++; m.Tries < f.Tries {
			again := f.Invalid
			if len(again) == 0 {
				again = f.Ask
			}
			return k.say(m, nil, again)
		}
		return k.enter(m.Rule, rest)
	}
	k.collected = map[string]string{f.Name: value}
	return k.enter(m.Rule, rest)
}

// finish does what a rule says once everything is collected.
func (k *talk) finish(rule string) Reply {
	if rule == "" {
		r := k.say(memo{}, nil, k.c.Handoff)
		return k.handoff(r, "the bot had no answer")
	}
	of := k.c.rule(rule)
	r := k.say(memo{}, of.Buttons, of.Reply...)
	if !of.Handoff {
		return r
	}
	r.Say = append(r.Say, k.say(memo{}, nil, k.c.Handoff).Say...)
	return k.handoff(r, cmp.Or(of.Reason, "rule “"+of.Name+"”"))
}

func (k *talk) handoff(r Reply, reason string) Reply {
	r.Handoff, r.Reason = true, reason
	known := maps.Clone(k.t.Attributes)
	if known == nil {
		known = make(map[string]string)
	}
	maps.Copy(known, k.collected)
	r.Summary = k.c.summary(&k.t, known)
	return r
}

// say makes messages. The last one carries the buttons and the memo.
func (k *talk) say(m memo, buttons []string, texts ...Text) Reply {
	r := Reply{Attributes: k.collected}
	for i, t := range texts {
		s := store.Say{Body: t.In(k.language, k.c.Language)}
		if i == len(texts)-1 {
			s.Memo = m.String()
			for _, name := range buttons {
				s.Buttons = append(s.Buttons, store.Button{Label: k.c.rule(name).Label.In(k.language, k.c.Language), Value: name})
			}
		}
		r.Say = append(r.Say, s)
	}
	return r
}

const (
	summaryTexts = 10  // texts of the customer in a summary
	summaryChars = 200 // of each
)

// summary tells the agent what was collected and what the customer has written to the bot. A bot that collects nothing
// has nothing to add to the messages.
func (c *RulesConfig) summary(t *Turn, known map[string]string) string {
	if len(c.Fields) == 0 {
		return ""
	}
	collected, asked := "Collected:", "The customer wrote:"
	if c.Language == "zh" {
		collected, asked = "已收集：", "客户说："
	}
	var s string
	for i := range c.Fields {
		if v := known[c.Fields[i].Name]; v != "" {
			s += fmt.Sprintf("\n• %s: %s", c.Fields[i].Name, v)
		}
	}
	if s != "" {
		s = collected + s + "\n"
	}
	var texts []string
	add := func(text string) { texts = append(texts, "\n• "+shorten(text, summaryChars)) }
	for i := range t.History {
		switch e := &t.History[i]; {
		case e.Kind == store.KindEvent:
			texts = nil
		case e.Kind == store.KindText && e.From.Kind == store.Customer && e.ID != t.ID:
			add(e.Body)
		}
	}
	if !t.Opening {
		add(t.Text)
	}
	if len(texts) == 0 {
		return s
	}
	s += asked
	for _, line := range texts[max(0, len(texts)-summaryTexts):] {
		s += line
	}
	return s
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
