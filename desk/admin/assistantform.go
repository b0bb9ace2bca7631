package admin

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

// The form of an assistant. Its fields are named as those of rules are. What is empty has its default.

// numbersOf returns the numbers of the form by field.
func numbersOf(c *bot.AssistantConfig) map[string]*int {
	l := &c.Limits
	return map[string]*int{
		"max_tokens": &c.MaxTokens, "history": &c.History, "failures": &c.Failures, "limits.first_ms": &l.FirstMS, "limits.idle_ms": &l.IdleMS,
		"limits.total_ms": &l.TotalMS, "limits.tokens_day": &l.TokensDay, "limits.tokens_chat": &l.TokensChat,
		"limits.calls_minute": &l.CallsMinute, "limits.concurrency": &l.Concurrency, "limits.queue": &l.Queue,
	}
}

// textsOf returns the texts of the form by field.
func textsOf(c *bot.AssistantConfig) map[string]*bot.Text {
	return map[string]*bot.Text{"greeting": &c.Greeting, "handoff": &c.Handoff, "again": &c.Again, "apology": &c.Apology}
}

// linesOf returns the texts that the model is told, and names, by field.
func linesOf(c *bot.AssistantConfig) map[string]*string {
	return map[string]*string{
		"url": &c.URL, "model": &c.Model, "system": &c.System, "knowledge": &c.Knowledge, "marker": &c.Marker, "language": &c.Language,
	}
}

// switchesOf returns what is on or off by field.
func switchesOf(c *bot.AssistantConfig) map[string]*bool {
	return map[string]*bool{"private": &c.AllowPrivate, "unmasked": &c.Unmasked, "tool": &c.Tool}
}

// assistantShown returns the fields of an assistant. Its key is never shown.
func assistantShown(config string) url.Values {
	var c bot.AssistantConfig
	if config != "" && json.Unmarshal([]byte(config), &c) != nil {
		return nil
	}
	v := rulesFields{url.Values{}, []string{"en", "zh", c.Language}}
	for _, t := range textsOf(&c) {
		for l := range *t {
			v.languages = append(v.languages, l)
		}
	}
	v.languages = tidy(v.languages)
	v.Set(langField, strings.Join(v.languages, " "))
	for field, t := range textsOf(&c) {
		v.text(field, *t)
	}
	for field, s := range linesOf(&c) {
		v.Set(field, *s)
	}
	for field, n := range numbersOf(&c) {
		v.Set(field, unlessZero(int64(*n)))
	}
	for field, on := range switchesOf(&c) {
		tick(v.Values, field, *on)
	}
	v.list("handoff_words", c.HandoffWords)
	if t := c.Temperature; t != nil {
		v.Set("temperature", strconv.FormatFloat(*t, 'g', -1, 64))
	}
	return v.Values
}

// assistantEntered fills in what the form has. A key that is left empty stays as it was, unless it would be sent to
// another server: who may change the address must not learn the key by it.
func (q *request) assistantEntered(b *store.BotAccount) error {
	var c bot.AssistantConfig
	if b.Config != "" {
		if err := json.Unmarshal([]byte(b.Config), &c); err != nil {
			return err
		}
	}
	before := c.URL
	for field, t := range textsOf(&c) {
		*t = q.said(field)
	}
	for field, s := range linesOf(&c) {
		*s = q.block(field)
	}
	for field, n := range numbersOf(&c) {
		*n = int(q.number(field))
	}
	for field, on := range switchesOf(&c) {
		*on = q.Value(field) != ""
	}
	c.HandoffWords = q.lines("handoff_words")
	c.Temperature = nil
	if s := q.line("temperature"); s != "" {
		t, err := strconv.ParseFloat(s, 64)
		if err != nil {
			q.wrong("temperature", q.T("reason.decimal"))
		}
		c.Temperature = &t
	}
	switch key := q.line("key"); {
	case key != "":
		c.Key = key
	case c.Key != "" && before != "" && serverOf(before) != serverOf(c.URL):
		q.wrong("key", q.T("assistant.key.again"))
	}
	config, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	b.Config = string(config)
	return bot.Check(b.Kind, b.Config)
}

func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}

// tidy sorts languages and removes those that are there twice.
func tidy(all []string) []string {
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(l string) bool { return l == "" })
}

// used is what an assistant has used today.
type used struct {
	store.BotUsage
	Most int64 // tokens that it may
}

// Over reports whether the tokens of the day are used up, as far as another answer needs them.
func (u used) Over() bool { return u.Tokens() >= u.Most }

// Tokens returns the tokens of both directions.
func (u used) Tokens() int64 { return u.BotUsage.Tokens() }

// usage returns what the assistants among bots have used today, by id.
func (p *Pages) usage(q *request, bots []store.BotAccount) (map[string]used, error) {
	all := make(map[string]used)
	today := p.o.Now().Format(time.DateOnly)
	for _, b := range bots {
		if b.Kind != store.BotAssistant {
			continue
		}
		u, err := p.o.Store.Cold().BotUsage(q.ctx(), b.ID, today)
		if err != nil {
			return nil, err
		}
		c, err := bot.ParseAssistant(b.Config)
		if err != nil {
			continue
		}
		all[b.ID] = used{u, int64(c.Limits.TokensDay)}
	}
	return all, nil
}
