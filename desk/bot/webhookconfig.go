package bot

import (
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
)

// WebhookConfig are the settings of a bot of kind "webhook". Zero numbers mean their defaults.
type WebhookConfig struct {
	URL          string   `json:"url"`    // https, or also http if AllowPrivate is set
	Secret       string   `json:"secret"` // of the signatures, both ways; at least 16 characters
	TimeoutMS    int      `json:"timeout_ms,omitempty"`
	AcceptedMS   int      `json:"accepted_ms,omitempty"`   // time for the answer to an accepted turn
	AllowPrivate bool     `json:"allow_private,omitempty"` // the address may be one of this machine or of a private network
	Attributes   []string `json:"attributes,omitempty"`    // attributes of the contact that the bot is told; none unless named
	History      int      `json:"history,omitempty"`       // newest messages that the bot is told
	Concurrency  int      `json:"concurrency,omitempty"`   // turns under way at once
	Queue        int      `json:"queue,omitempty"`         // turns that wait for one of these places
	Greeting     Text     `json:"greeting,omitempty"`      // said before the customer writes; without it the bot is asked
	Apology      Text     `json:"apology,omitempty"`       // said when the bot fails and a person takes over
	Language     string   `json:"language,omitempty"`      // of the texts for customers of any other; default "en"
}

const (
	minSecret     = 16
	maxSecret     = 256
	maxAttributes = 50
)

// ParseWebhook reads and checks the settings of a bot of kind "webhook", and fills in the defaults. Errors are those of
// Check. Any goroutine.
func ParseWebhook(config string) (*WebhookConfig, error) {
	var c WebhookConfig
	if err := decodeConfig(config, &c); err != nil {
		return nil, err
	}
	var p problems
	if c.Language == "" {
		c.Language = defaultLanguage
	}
	if c.Apology == nil {
		c.Apology = apology()
	}
	if _, err := safehttp.CheckURL(c.URL, c.AllowPrivate); err != nil {
		p.add("url: %v", err)
	}
	if n := len(c.Secret); n < minSecret || n > maxSecret {
		p.add("secret: %d bytes, want %d up to %d", n, minSecret, maxSecret)
	}
	if !isLanguage(c.Language) {
		p.add("language: %q is no language, want two letters like \"en\" or \"zh\"", c.Language)
	}
	p.text("greeting", c.Greeting, c.Language, MaxSayChars, false)
	p.text("apology", c.Apology, c.Language, MaxSayChars, true)
	for _, n := range []struct {
		name                 string
		value                *int
		standard, least, top int
	}{
		{"timeout_ms", &c.TimeoutMS, 8000, 100, 60_000},
		{"accepted_ms", &c.AcceptedMS, 60_000, 1000, 600_000},
		{"history", &c.History, 20, 1, 100},
		{"concurrency", &c.Concurrency, 8, 1, 64},
		{"queue", &c.Queue, 100, 1, 1000},
	} {
		if *n.value == 0 {
			*n.value = n.standard
		}
		if *n.value < n.least || *n.value > n.top {
			p.add("%s: %d, want %d up to %d", n.name, *n.value, n.least, n.top)
		}
	}
	if len(c.Attributes) > maxAttributes {
		p.add("attributes: %d of them, the limit is %d", len(c.Attributes), maxAttributes)
	}
	for i, a := range c.Attributes {
		p.name("attributes", a)
		if slices.Index(c.Attributes, a) != i {
			p.add("attributes[%d]: %q is there twice", i, a)
		}
	}
	return &c, p.err()
}

// Timeout returns how long one attempt may take.
func (c *WebhookConfig) Timeout() time.Duration { return time.Duration(c.TimeoutMS) * time.Millisecond }

// Accepted returns how long an accepted turn may take.
func (c *WebhookConfig) Accepted() time.Duration {
	return time.Duration(c.AcceptedMS) * time.Millisecond
}

// apology returns what is said when a bot fails, unless its settings say otherwise.
func apology() Text {
	return Text{
		"en": "Sorry, the assistant cannot answer now. I am passing you to a person.",
		"zh": "抱歉，智能助手暂时无法回复，正在为您转接人工客服。",
	}
}

// Apology returns what a customer is told when a bot has failed whose settings do not say it. The language is that of
// the customer's last text, or of the browser.
func Apology(text, locale string) string {
	return apology().In(languageOf(text, locale), defaultLanguage)
}

// NobodyFree returns what a customer is told when the queue is full, so that no person can take the conversation.
func NobodyFree(text, locale string) string {
	return Text{
		"en": "All our people are busy and many customers are waiting. Please write again a little later.",
		"zh": "当前排队人数较多，暂时无法转接人工客服，请稍后再发消息。",
	}.In(languageOf(text, locale), defaultLanguage)
}
