package bot

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

// RulesConfig are the settings of a bot of kind "rules".
type RulesConfig struct {
	Language string   `json:"language,omitempty"` // language that every text has, spoken with customers of any other; default "en"
	Greeting Text     `json:"greeting"`           // said first
	Buttons  []string `json:"buttons,omitempty"`  // names of the rules offered under the greeting and after Unknown
	Unknown  Unknown  `json:"unknown"`
	Handoff  Text     `json:"handoff"` // said when a person takes over
	Rules    []Rule   `json:"rules"`   // the first rule that fits counts
	Fields   []Field  `json:"fields,omitempty"`
}

// Unknown is what happens when no rule fits.
type Unknown struct {
	Say   Text     `json:"say"`
	Limit int      `json:"limit,omitempty"` // how many in a row hand the conversation over; 0 = none do
	Ask   []string `json:"ask,omitempty"`   // fields asked for before the hand-over
}

// Rule is an answer and what it answers. A button is pressed by its name.
type Rule struct {
	Name     string   `json:"name"`
	Label    Text     `json:"label,omitempty"`    // of the rule's button; needed where that is offered
	Keywords []string `json:"keywords,omitempty"` // whole words, or parts of the text where they are written without spaces
	Ask      []string `json:"ask,omitempty"`      // fields asked for first, as far as they are not known
	Reply    []Text   `json:"reply,omitempty"`
	Buttons  []string `json:"buttons,omitempty"` // offered under the last reply
	Handoff  bool     `json:"handoff,omitempty"` // a person takes over after the replies
	Reason   string   `json:"reason,omitempty"`  // of the hand-off, for staff
}

// Field is one thing that the bot asks for. The answer becomes the contact's attribute of that name.
type Field struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"` // "text" (default), "email" or "tel"
	Ask     Text   `json:"ask"`
	Invalid Text   `json:"invalid,omitempty"` // said to an invalid answer; default: Ask again
	Tries   int    `json:"tries,omitempty"`   // invalid answers before the bot goes on without one; default 3
}

// Types of fields.
const (
	FieldText  = "text"
	FieldEmail = "email"
	FieldTel   = "tel"
)

const (
	defaultLanguage = "en"
	defaultTries    = 3
	maxTries        = 10
	maxUnknown      = 20
	maxReasonChars  = 200 // the same as for conv.close
)

// ParseRules reads and checks the settings of a bot of kind "rules". Errors are those of Check. Any goroutine.
func ParseRules(config string) (*RulesConfig, error) {
	var c RulesConfig
	if err := decodeConfig(config, &c); err != nil {
		return nil, err
	}
	if c.Language == "" {
		c.Language = defaultLanguage
	}
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Type == "" {
			f.Type = FieldText
		}
		if f.Tries == 0 {
			f.Tries = defaultTries
		}
	}
	return &c, c.check()
}

func (c *RulesConfig) check() error {
	var p problems
	if !isLanguage(c.Language) {
		p.add("language: %q is no language, want two letters like \"en\" or \"zh\"", c.Language)
		return p.err()
	}
	p.text("greeting", c.Greeting, c.Language, MaxSayChars, true)
	p.text("unknown.say", c.Unknown.Say, c.Language, MaxSayChars, true)
	p.text("handoff", c.Handoff, c.Language, MaxSayChars, true)
	if c.Unknown.Limit < 0 || c.Unknown.Limit > maxUnknown {
		p.add("unknown.limit: %d, want 0 (any number) up to %d", c.Unknown.Limit, maxUnknown)
	}
	if len(c.Rules) > MaxRules {
		p.add("rules: %d of them, the limit is %d", len(c.Rules), MaxRules)
	}
	if len(c.Fields) > MaxFields {
		p.add("fields: %d of them, the limit is %d", len(c.Fields), MaxFields)
	}
	c.checkFields(&p)
	c.checkAsk(&p, "unknown.ask", c.Unknown.Ask)
	c.checkButtons(&p, "buttons", c.Buttons)
	for i := range c.Rules {
		c.checkRule(&p, i)
	}
	return p.err()
}

func (c *RulesConfig) checkFields(p *problems) {
	for i := range c.Fields {
		f, where := &c.Fields[i], fmt.Sprintf("fields[%d]", i)
		p.name(where, f.Name)
		if c.field(f.Name) != f {
			p.add("%s: a second field named %q", where, f.Name)
		}
		if !slices.Contains([]string{FieldText, FieldEmail, FieldTel}, f.Type) {
			p.add("%s.type: %q, want %q, %q or %q", where, f.Type, FieldText, FieldEmail, FieldTel)
		}
		if f.Tries < 1 || f.Tries > maxTries {
			p.add("%s.tries: %d, want 1 up to %d", where, f.Tries, maxTries)
		}
		p.text(where+".ask", f.Ask, c.Language, MaxSayChars, true)
		p.text(where+".invalid", f.Invalid, c.Language, MaxSayChars, false)
	}
}

func (c *RulesConfig) checkRule(p *problems, i int) {
	r, where := &c.Rules[i], fmt.Sprintf("rules[%d]", i)
	p.name(where, r.Name)
	if c.rule(r.Name) != r {
		p.add("%s: a second rule named %q", where, r.Name)
	}
	p.text(where+".label", r.Label, c.Language, MaxLabelChars, false)
	p.keywords(where+".keywords", r.Keywords)
	if len(r.Keywords) == 0 && len(r.Label) == 0 {
		p.add("%s: neither keywords nor a label for a button: nothing leads to it", where)
	}
	if len(r.Reply) == 0 && !r.Handoff {
		p.add("%s: neither a reply nor a hand-off", where)
	}
	said := len(r.Reply)
	if r.Handoff {
		said++ // the hand-off has a message of its own
	}
	if said > store.MaxBotMessages {
		p.add("%s.reply: %d messages with that of a hand-off, the limit is %d", where, said, store.MaxBotMessages)
	}
	for j, t := range r.Reply {
		p.text(fmt.Sprintf("%s.reply[%d]", where, j), t, c.Language, MaxSayChars, true)
	}
	if len(r.Buttons) > 0 && len(r.Reply) == 0 {
		p.add("%s.buttons: they belong under a reply, and there is none", where)
	}
	c.checkButtons(p, where+".buttons", r.Buttons)
	c.checkAsk(p, where+".ask", r.Ask)
	if n := utf8.RuneCountInString(r.Reason); n > maxReasonChars {
		p.add("%s.reason: %d characters, the limit is %d", where, n, maxReasonChars)
	}
}

func (p *problems) keywords(where string, all []string) {
	if len(all) > MaxKeywords {
		p.add("%s: %d of them, the limit is %d", where, len(all), MaxKeywords)
	}
	for j, k := range all {
		if len(words(fold(k))) == 0 || utf8.RuneCountInString(k) > MaxNameChars {
			p.add("%s[%d]: %q, want 1 up to %d characters with a letter or digit among them", where, j, k, MaxNameChars)
		}
	}
}

func (c *RulesConfig) checkButtons(p *problems, where string, names []string) {
	if len(names) > MaxButtons {
		p.add("%s: %d of them, the limit is %d", where, len(names), MaxButtons)
	}
	for i, name := range names {
		switch r := c.rule(name); {
		case r == nil:
			p.add("%s[%d]: there is no rule named %q", where, i, name)
		case len(r.Label) == 0:
			p.add("%s[%d]: rule %q has no label for its button", where, i, name)
		case slices.Index(names, name) != i:
			p.add("%s[%d]: rule %q is there twice", where, i, name)
		}
	}
}

func (c *RulesConfig) checkAsk(p *problems, where string, names []string) {
	for i, name := range names {
		if c.field(name) == nil {
			p.add("%s[%d]: there is no field named %q", where, i, name)
		} else if slices.Index(names, name) != i {
			p.add("%s[%d]: field %q is there twice", where, i, name)
		}
	}
}

// rule returns the first rule of a name, or nil.
func (c *RulesConfig) rule(name string) *Rule {
	if i := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.Name == name }); i >= 0 {
		return &c.Rules[i]
	}
	return nil
}

// field returns the first field of a name, or nil.
func (c *RulesConfig) field(name string) *Field {
	if i := slices.IndexFunc(c.Fields, func(f Field) bool { return f.Name == name }); i >= 0 {
		return &c.Fields[i]
	}
	return nil
}

// languageOf returns the language for a customer: Chinese if the text is, else that of the customer's browser.
func languageOf(text, locale string) string {
	if hasHan(text) {
		return "zh"
	}
	language, _, _ := strings.Cut(strings.ToLower(locale), "-")
	language, _, _ = strings.Cut(language, "_")
	return language
}
