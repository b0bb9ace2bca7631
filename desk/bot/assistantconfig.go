package bot

import (
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/safehttp"
)

// AssistantConfig are the settings of a bot of kind "assistant". Zero numbers mean their defaults.
type AssistantConfig struct {
	URL          string          `json:"url"`           // where completions of chats are made; https, or also http if AllowPrivate is set
	Model        string          `json:"model"`         // name of the model there
	Key          string          `json:"key,omitempty"` // sent as bearer token
	AllowPrivate bool            `json:"allow_private,omitempty"`
	System       string          `json:"system,omitempty"`    // who the model is and how it answers
	Knowledge    string          `json:"knowledge,omitempty"` // what it knows, sent with each turn
	Temperature  *float64        `json:"temperature,omitempty"`
	MaxTokens    int             `json:"max_tokens,omitempty"`    // of one answer
	History      int             `json:"history,omitempty"`       // newest messages that the model is told
	Unmasked     bool            `json:"unmasked,omitempty"`      // telephone numbers, addresses and card numbers are sent as they are
	Marker       string          `json:"marker,omitempty"`        // the model writes it to ask for a person
	Tool         bool            `json:"tool,omitempty"`          // the model may call a function for that, too
	HandoffWords []string        `json:"handoff_words,omitempty"` // of customers who want a person; keywords as those of rules
	Failures     int             `json:"failures,omitempty"`      // in a row that hand the conversation over
	Greeting     Text            `json:"greeting,omitempty"`      // said before the customer writes
	Handoff      Text            `json:"handoff,omitempty"`       // said when a person takes over
	Again        Text            `json:"again,omitempty"`         // said after a failure that does not hand over
	Apology      Text            `json:"apology,omitempty"`       // said after one that does
	Language     string          `json:"language,omitempty"`      // of the texts for customers of any other; default "en"
	Limits       AssistantLimits `json:"limits"`
}

// AssistantLimits bound the time and the cost of an assistant.
type AssistantLimits struct {
	FirstMS     int `json:"first_ms,omitempty"`     // until the first word
	IdleMS      int `json:"idle_ms,omitempty"`      // between two words
	TotalMS     int `json:"total_ms,omitempty"`     // of one answer
	TokensDay   int `json:"tokens_day,omitempty"`   // of all conversations from midnight to midnight
	TokensChat  int `json:"tokens_chat,omitempty"`  // while the bot has one conversation
	CallsMinute int `json:"calls_minute,omitempty"` // of all conversations
	Concurrency int `json:"concurrency,omitempty"`  // turns under way at once
	Queue       int `json:"queue,omitempty"`        // turns that wait for one of these places
}

// Limits of the settings of an assistant.
const (
	MaxSystemChars    = 16_000
	MaxKnowledgeBytes = 64 << 10

	maxModel  = 200 // characters
	maxKey    = 512 // bytes
	minMarker = 3   // characters
	maxMarker = 64
	maxWarmth = 2.0 // of Temperature
)

// ParseAssistant reads and checks the settings of a bot of kind "assistant", and fills in the defaults. Errors are those
// of Check. Any goroutine.
func ParseAssistant(config string) (*AssistantConfig, error) {
	var c AssistantConfig
	if err := decodeConfig(config, &c); err != nil {
		return nil, err
	}
	c.fill()
	var p problems
	if _, err := safehttp.CheckURL(c.URL, c.AllowPrivate); err != nil {
		p.add("url: %v", err)
	}
	c.checkWords(&p)
	if !isLanguage(c.Language) {
		p.add("language: %q is no language, want two letters like \"en\" or \"zh\"", c.Language)
		return nil, p.err()
	}
	p.text("greeting", c.Greeting, c.Language, MaxSayChars, false)
	p.text("handoff", c.Handoff, c.Language, MaxSayChars, true)
	p.text("again", c.Again, c.Language, MaxSayChars, true)
	p.text("apology", c.Apology, c.Language, MaxSayChars, true)
	for _, n := range c.numbers() {
		if *n.value < n.least || *n.value > n.top {
			p.add("%s: %d, want %d up to %d", n.name, *n.value, n.least, n.top)
		}
	}
	return &c, p.err()
}

func (c *AssistantConfig) checkWords(p *problems) {
	for _, s := range []struct {
		name, value string
		least, top  int
	}{{"model", c.Model, 1, maxModel}, {"key", c.Key, 0, maxKey}, {"system", c.System, 0, MaxSystemChars}, {"marker", c.Marker, minMarker, maxMarker}} {
		if n := utf8.RuneCountInString(s.value); n < s.least || n > s.top {
			p.add("%s: %d characters, want %d up to %d", s.name, n, s.least, s.top)
		}
	}
	for _, r := range c.Key {
		if r <= ' ' || r > '~' {
			p.add("key: only the visible characters of ASCII are possible")
			break
		}
	}
	if n := len(c.Knowledge); n > MaxKnowledgeBytes {
		p.add("knowledge: %d bytes, the limit is %d", n, MaxKnowledgeBytes)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= maxWarmth) {
		p.add("temperature: %v, want 0 up to %v", *t, maxWarmth)
	}
	p.keywords("handoff_words", c.HandoffWords)
}

type number struct {
	name                 string
	value                *int
	standard, least, top int
}

func (c *AssistantConfig) numbers() []number {
	l := &c.Limits
	return []number{
		{"max_tokens", &c.MaxTokens, 800, 16, 32_000},
		{"history", &c.History, 20, 1, 100},
		{"failures", &c.Failures, 1, 1, 10},
		{"limits.first_ms", &l.FirstMS, 20_000, 100, 120_000},
		{"limits.idle_ms", &l.IdleMS, 15_000, 100, 120_000},
		{"limits.total_ms", &l.TotalMS, 90_000, 1000, 600_000},
		{"limits.tokens_day", &l.TokensDay, 1_000_000, 1000, 2_000_000_000},
		{"limits.tokens_chat", &l.TokensChat, 100_000, 1000, 2_000_000_000},
		{"limits.calls_minute", &l.CallsMinute, 60, 1, 6000},
		{"limits.concurrency", &l.Concurrency, 8, 1, 64},
		{"limits.queue", &l.Queue, 100, 1, 1000},
	}
}

func (c *AssistantConfig) fill() {
	for _, n := range c.numbers() {
		if *n.value == 0 {
			*n.value = n.standard
		}
	}
	if c.Language == "" {
		c.Language = defaultLanguage
	}
	if c.Marker == "" {
		c.Marker = "[[PERSON]]"
	}
	if c.HandoffWords == nil {
		c.HandoffWords = []string{"human", "real person", "人工"}
	}
	if c.Apology == nil {
		c.Apology = apology()
	}
	if c.Handoff == nil {
		c.Handoff = Text{
			"en": "I am passing you to a person. You can keep writing, it will be seen.",
			"zh": "正在为您转接人工客服。您可以继续留言，客服会看到。",
		}
	}
	if c.Again == nil {
		c.Again = Text{"en": "Sorry, that did not work. Please ask once more.", "zh": "抱歉，刚才没有成功，请再问一次。"}
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
