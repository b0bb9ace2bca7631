package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/bot"
)

// The form of a bot of rules. A field is named by the place of its setting, such as "rules[2].reply[0].zh", which is also
// how bot.Check names what is wrong. A text has a field for each language that the settings use.

const (
	formField = "form" // is there when the settings come as fields, and not as JSON
	langField = "languages"
	doField   = "do" // of the buttons that store nothing

	maxLanguages = 20 // settings with more of them are edited as JSON
)

// rulesShown returns the fields of settings.
func rulesShown(c *bot.RulesConfig) url.Values {
	v := rulesFields{url.Values{formField: {"1"}}, languagesOf(c)}
	v.Set(langField, strings.Join(v.languages, " "))
	v.Set("language", c.Language)
	v.text("greeting", c.Greeting)
	v.list("buttons", c.Buttons)
	v.text("unknown.say", c.Unknown.Say)
	v.Set("unknown.limit", unlessZero(int64(c.Unknown.Limit)))
	v.list("unknown.ask", c.Unknown.Ask)
	v.text("handoff", c.Handoff)
	for i, r := range c.Rules {
		at := fmt.Sprintf("rules[%d].", i)
		v.Set(at+"name", r.Name)
		v.text(at+"label", r.Label)
		v.list(at+"keywords", r.Keywords)
		v.list(at+"ask", r.Ask)
		for j, t := range r.Reply {
			v.text(fmt.Sprintf("%sreply[%d]", at, j), t)
		}
		v.list(at+"buttons", r.Buttons)
		tick(v.Values, at+"handoff", r.Handoff)
		v.Set(at+"reason", r.Reason)
	}
	for i, f := range c.Fields {
		at := fmt.Sprintf("fields[%d].", i)
		v.Set(at+"name", f.Name)
		v.Set(at+"type", f.Type)
		v.text(at+"ask", f.Ask)
		v.text(at+"invalid", f.Invalid)
		v.Set(at+"tries", unlessZero(int64(f.Tries)))
	}
	return v.Values
}

type rulesFields struct {
	url.Values
	languages []string
}

// showRules fills the form with stored settings. It returns false for those that are edited as JSON.
func (q *request) showRules(config string) bool {
	c, err := bot.ParseRules(config)
	if err != nil || len(languagesOf(c)) > maxLanguages {
		return false
	}
	q.fill(rulesShown(c))
	return true
}

func (v *rulesFields) text(at string, t bot.Text) {
	for _, l := range v.languages {
		v.Set(at+"."+l, t[l])
	}
}

func (v *rulesFields) list(at string, lines []string) { v.Set(at, strings.Join(lines, "\n")) }

// languagesOf returns the languages of the fields: those of the pages, and all that the settings use.
func languagesOf(c *bot.RulesConfig) []string {
	all := []string{"en", "zh"}
	see := func(t bot.Text) {
		for l := range t {
			all = append(all, l)
		}
	}
	all = append(all, c.Language)
	see(c.Greeting)
	see(c.Unknown.Say)
	see(c.Handoff)
	for _, r := range c.Rules {
		see(r.Label)
		for _, t := range r.Reply {
			see(t)
		}
	}
	for _, f := range c.Fields {
		see(f.Ask)
		see(f.Invalid)
	}
	return tidy(all)
}

// rulesEntered returns the settings that the fields hold.
func (q *request) rulesEntered() *bot.RulesConfig {
	c := &bot.RulesConfig{
		Language: q.line("language"), Greeting: q.said("greeting"), Buttons: q.lines("buttons"), Handoff: q.said("handoff"), Rules: []bot.Rule{},
		Unknown: bot.Unknown{Say: q.said("unknown.say"), Limit: int(q.number("unknown.limit")), Ask: q.lines("unknown.ask")},
	}
	for i := range q.rows("rules", bot.MaxRules) {
		at := fmt.Sprintf("rules[%d].", i)
		r := bot.Rule{
			Name: q.line(at + "name"), Label: q.said(at + "label"), Keywords: q.lines(at + "keywords"), Ask: q.lines(at + "ask"),
			Buttons: q.lines(at + "buttons"), Handoff: q.Value(at+"handoff") != "", Reason: q.line(at + "reason"),
		}
		for j := range replies(q.form.values, at) {
			if t := q.said(fmt.Sprintf("%sreply[%d]", at, j)); len(t) > 0 {
				r.Reply = append(r.Reply, t)
			}
		}
		c.Rules = append(c.Rules, r)
	}
	for i := range q.rows("fields", bot.MaxFields) {
		at := fmt.Sprintf("fields[%d].", i)
		c.Fields = append(c.Fields, bot.Field{
			Name: q.line(at + "name"), Type: q.line(at + "type"), Ask: q.said(at + "ask"), Invalid: q.said(at + "invalid"), Tries: int(q.number(at + "tries")),
		})
	}
	return c
}

// rows returns how many rules or fields the form has, at most one more than may be saved.
func (q *request) rows(list string, limit int) (n int) {
	for n <= limit && q.there(fmt.Sprintf("%s[%d].name", list, n)) {
		n++
	}
	return n
}

func (q *request) there(field string) bool { _, ok := q.form.values[field]; return ok }

// said reads a text in its languages.
func (q *request) said(at string) bot.Text {
	t := make(bot.Text)
	for _, l := range q.languages() {
		if s := q.block(at + "." + l); s != "" {
			t[l] = s
		}
	}
	if len(t) == 0 {
		return nil
	}
	return t
}

// languages returns the languages that the form has fields for.
func (q *request) languages() []string {
	all := strings.Fields(q.Value(langField))
	return all[:min(len(all), maxLanguages)]
}

// replies returns how many replies of a rule have fields.
func replies(v url.Values, at string) (n int) {
	for field := range v {
		if rest, ok := strings.CutPrefix(field, at+"reply["); ok {
			number, _, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(number); err == nil && i < bot.MaxRules {
				n = max(n, i+1)
			}
		}
	}
	return n
}

// encodeRules returns the settings as they are stored.
func encodeRules(c *bot.RulesConfig) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(c)
	return b.String(), err
}

// refill shows settings in the form, and keeps numbers that are none as they were entered.
func (q *request) refill(c *bot.RulesConfig) {
	entered := q.form.values
	for field := range entered {
		if place.MatchString(field) && q.Error(field) == "" {
			delete(entered, field)
		}
	}
	for field, values := range rulesShown(c) {
		if q.Error(field) == "" {
			q.set(field, values...)
		}
	}
}

// place finds the fields of lists, which change their names when the lists do.
var place = regexp.MustCompile(`^(?:rules|fields)\[`)

var move = regexp.MustCompile(`^(rules|fields)(?:\[(\d{1,4})\])?\.(add|up|down|remove)$`)

// rearranged carries out a button that adds, moves or removes a rule or a field. It stores nothing.
func (q *request) rearranged() bool {
	m := move.FindStringSubmatch(q.Value(doField))
	if m == nil {
		return false
	}
	c := q.rulesEntered()
	q.errs = nil
	i, _ := strconv.Atoi(m[2]) // "" is 0, as add needs none
	if m[1] == "rules" {
		c.Rules = rearrange(c.Rules, m[3], i, bot.MaxRules)
	} else {
		c.Fields = rearrange(c.Fields, m[3], i, bot.MaxFields)
	}
	q.refill(c)
	return true
}

func rearrange[T any](list []T, what string, i, limit int) []T {
	switch {
	case what == "add" && len(list) < limit:
		var fresh T
		return append(list, fresh)
	case i >= len(list):
	case what == "up" && i > 0:
		list[i-1], list[i] = list[i], list[i-1]
	case what == "down" && i+1 < len(list):
		list[i], list[i+1] = list[i+1], list[i]
	case what == "remove":
		return slices.Delete(list, i, i+1)
	}
	return list
}

// problems shows what is wrong with settings at their fields, and returns what has no field.
func (q *request) problems(err error) (rest []string) {
	if err == nil {
		return nil
	}
	all, ok := bot.Problems(err)
	if !ok {
		return []string{strings.TrimPrefix(err.Error(), "bot: ")}
	}
	for _, e := range all {
		at, _, _ := e.Place()
		field := q.fieldOf(e, at)
		switch {
		case field != "":
			q.wrong(field, q.problemText(e))
		case at != "":
			rest = append(rest, at+": "+q.problemText(e))
		default:
			rest = append(rest, q.problemText(e))
		}
	}
	return rest
}

// fieldOf returns the field of the form that shows a problem, "" if there is none.
func (q *request) fieldOf(e *bot.Problem, at string) string {
	if at == "" || q.there("rules") { // all of it is one text
		return ""
	}
	fields := []string{at, strings.TrimSuffix(at, "_ms")}
	for _, l := range q.languages() {
		if strings.Contains(e.Error(), strconv.Quote(l)) {
			fields = append(fields, at+"."+l, at+"[0]."+l)
		}
	}
	list := at[:max(strings.LastIndexByte(at, '['), 0)]
	fields = append(fields, list, at+".name", at+"."+q.Value("language"), at+"[0]."+q.Value("language"))
	i := slices.IndexFunc(fields, q.there)
	if i < 0 {
		return ""
	}
	return fields[i]
}

// problemText returns what is wrong in the language of the page.
func (q *request) problemText(e *bot.Problem) string {
	_, format, args := e.Place()
	if zh := botProblems()[format]; q.Lang == "zh-CN" && zh != "" {
		format = zh
	}
	return fmt.Sprintf(format, args...)
}
