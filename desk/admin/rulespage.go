package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

// rulesPage is what the form of rules needs beside the values of its fields.
type rulesPage struct {
	*request
	Action        string
	Rules, Fields []rulesRow
	Tried         *tried // nil until something has been tried
}

// rulesRow is one rule, one field, or the settings around them with the prefix "".
type rulesRow struct {
	*request
	Prefix  string
	Replies []string // places of the replies, one of them free if there may be another
}

func (q *request) rulesPage(action string) *rulesPage {
	page := &rulesPage{request: q, Action: action, Tried: q.tried}
	for i := range q.rows("rules", bot.MaxRules) {
		page.Rules = append(page.Rules, q.ruleRow(fmt.Sprintf("rules[%d]", i)))
	}
	for i := range q.rows("fields", bot.MaxFields) {
		page.Fields = append(page.Fields, rulesRow{request: q, Prefix: fmt.Sprintf("fields[%d]", i)})
	}
	return page
}

func (q *request) ruleRow(prefix string) rulesRow {
	row := rulesRow{request: q, Prefix: prefix}
	for j := range min(replies(q.form.values, prefix+".")+1, store.MaxBotMessages) {
		row.Replies = append(row.Replies, fmt.Sprintf("reply[%d]", j))
	}
	return row
}

// Top describes the settings that belong to no rule.
func (p *rulesPage) Top() rulesRow { return rulesRow{request: p.request} }

// NewRule is the pattern of a rule that a script adds.
func (p *rulesPage) NewRule() rulesRow { return p.ruleRow("rules[#]") }

// NewField is the pattern of a field that a script adds.
func (p *rulesPage) NewField() rulesRow { return rulesRow{request: p.request, Prefix: "fields[#]"} }

func (r rulesRow) at(name string) string {
	if r.Prefix == "" {
		return name
	}
	return r.Prefix + "." + name
}

// At describes a field of the row.
func (r rulesRow) At(name, kind, key string, required bool, limit int) input {
	return r.Input(r.at(name), kind, key, required, limit)
}

// Texts describes the fields of a text, one for each language.
func (r rulesRow) Texts(name, kind, key string, required bool, limit int) (all []input) {
	for i, l := range r.languages() {
		in := r.At(name+"."+l, kind, key, required && l == r.Value("language"), limit)
		in.Label += " · " + r.Spoken(l)
		if i > 0 {
			in.Help = ""
		}
		all = append(all, in)
	}
	return all
}

// Types returns the types of a field.
func (r rulesRow) Types() []string { return []string{bot.FieldText, bot.FieldEmail, bot.FieldTel} }

// Browsers returns the languages of customers that the tryout knows, that of the settings first.
func (q *request) Browsers() []string {
	first := cmp.Or(q.line("language"), "en")
	others := slices.DeleteFunc(q.languages(), func(l string) bool { return l == "*" || l == first })
	return append([]string{first}, others...)
}

// Spoken returns the name of a language of a bot.
func (q *request) Spoken(l string) string {
	switch l {
	case "en":
		return "English"
	case "zh":
		return "中文"
	case "*":
		return q.T("language.any")
	}
	return l
}

// tried is what the bot has answered in the tryout.
type tried struct {
	Asked string
	bot.Why
	bot.Reply
	Memo, Known string // for the next message
}

const (
	maxTried   = 2000    // characters of a message
	maxCarried = 8 << 10 // bytes that the tryout carries from one message to the next
	tryPrefix  = "try="
)

// try lets the bot of the form answer a message, or the press of a button. Nothing is stored.
func (q *request) try(press string, pressed bool) (*tried, error) {
	text := q.line("try")
	if n := utf8.RuneCountInString(text); n > maxTried {
		q.wrong("try", q.T("rules.try.long", n, maxTried))
	}
	entered := q.rulesEntered()
	q.refill(entered)
	config, err := encodeRules(entered)
	if err != nil {
		return nil, err
	}
	c, err := bot.ParseRules(config)
	if err != nil || q.Failed() > 0 {
		return nil, err
	}
	turn := bot.Turn{ID: "try", Text: text, Locale: q.line("try.locale"), Attributes: make(map[string]string)}
	if pressed {
		turn.Text, turn.Payload = press, press
	}
	turn.Opening = turn.Text == ""
	if memo, known := q.Value("try.memo"), q.Value("try.known"); len(memo)+len(known) <= maxCarried {
		turn.History = []store.Event{{Kind: store.KindText, From: store.Actor{Kind: store.Bot}, Memo: memo}}
		_ = json.Unmarshal([]byte(known), &turn.Attributes) // without it the bot asks again
	}
	t := &tried{Asked: turn.Text}
	t.Reply, t.Why = bot.NewRules(c).Explain(turn)
	if n := len(t.Say); n > 0 {
		t.Memo = t.Say[n-1].Memo
	}
	known := maps.Clone(turn.Attributes)
	if known == nil {
		known = make(map[string]string)
	}
	maps.Copy(known, t.Attributes)
	b, err := json.Marshal(known)
	t.Known = string(b)
	q.set("try")
	return t, err
}

// playing answers the buttons of the form that store nothing. False means that the form is to be saved.
func (q *request) playing(b store.BotAccount) bool {
	if b.Kind != store.BotRules || !q.there(formField) {
		return false
	}
	if q.rearranged() {
		q.botForm(http.StatusOK, b)
		return true
	}
	if press, pressed := strings.CutPrefix(q.Value(doField), tryPrefix); pressed || press == "try" {
		var err error
		if q.tried, err = q.try(press, pressed); q.tried != nil {
			q.botForm(http.StatusOK, b)
		} else {
			q.botForm(http.StatusUnprocessableEntity, b, q.problems(err)...)
		}
		return true
	}
	return false
}
