package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

// Limits of a bot's settings. Lengths are in characters.
const (
	MaxConfigBytes = 128 << 10
	MaxRules       = 200
	MaxKeywords    = 50 // of one rule
	MaxFields      = 20
	MaxButtons     = 10   // under one message
	MaxSayChars    = 4000 // of one message
	MaxLabelChars  = 80   // of a button
	MaxNameChars   = 64   // of rules, fields and keywords
	maxProblems    = 10   // problems that one check reports
)

// Check returns what is wrong with the settings of a bot of a kind, or nil. Each problem is one line with its place. Any
// goroutine.
func Check(kind, config string) error {
	var err error
	switch kind {
	case store.BotRules:
		_, err = ParseRules(config)
	case store.BotWebhook:
		_, err = ParseWebhook(config)
	case store.BotAssistant:
		_, err = ParseAssistant(config)
	default:
		err = fmt.Errorf("bot: kind %q, want %q, %q or %q", kind, store.BotRules, store.BotWebhook, store.BotAssistant)
	}
	return err
}

// Text is a text of a bot, by language ("en", "zh"). In JSON a plain string stands for every language.
type Text map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text{anyLanguage: s}
		return nil
	}
	var m map[string]string
	if err := json.Unmarshal(b, &m); err != nil {
		return errors.New(`a text is a string, or an object like {"en": "Hello", "zh": "您好"}`)
	}
	*t = m
	return nil
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if s, ok := t[anyLanguage]; ok && len(t) == 1 {
		return json.Marshal(s)
	}
	return json.Marshal(map[string]string(t))
}

// anyLanguage is the key of the text for every language.
const anyLanguage = "*"

// In returns the text in language, else in otherwise, else in any language; "" only if there is none at all.
func (t Text) In(language, otherwise string) string {
	for _, l := range []string{language, otherwise, anyLanguage} {
		if s := t[l]; s != "" {
			return s
		}
	}
	return ""
}

// decodeConfig reads one JSON object and refuses unknown fields, so that a typing error is reported and not ignored.
func decodeConfig(config string, into any) error {
	if len(config) > MaxConfigBytes {
		return fmt.Errorf("bot: the settings have %d bytes, the limit is %d", len(config), MaxConfigBytes)
	}
	if !utf8.ValidString(config) {
		return errors.New("bot: the settings are not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader([]byte(config)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF { //nolint:errorlint // io.EOF is never wrapped here
			return errors.New("bot: the settings go on after the end of the JSON object")
		}
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		line, column := position(config, syntax.Offset)
		return fmt.Errorf("bot: the settings are not JSON: line %d, column %d: %w", line, column, err)
	case errors.As(err, &kind):
		return fmt.Errorf("bot: %s: a %s does not belong here", kind.Field, kind.Value)
	}
	return fmt.Errorf("bot: the settings are not usable: %w", err)
}

// position turns an offset into line and column, both from 1.
func position(s string, offset int64) (line, column int) {
	before := s[:min(max(int(offset)-1, 0), len(s))]
	last := 0
	line = 1
	for i, r := range before {
		if r == '\n' {
			line, last = line+1, i+1
		}
	}
	return line, utf8.RuneCountInString(before[last:]) + 1
}

// text checks that a text exists in the language that every text must have, and how long it is.
func (p *problems) text(where string, t Text, language string, limit int, required bool) {
	if len(t) == 0 {
		if required {
			p.add("%s: a text is missing", where)
		}
		return
	}
	for l, s := range t {
		switch n := utf8.RuneCountInString(s); {
		case l != anyLanguage && !isLanguage(l):
			p.add("%s: %q is no language, want two letters like \"en\" or \"zh\"", where, l)
		case s == "":
			p.add("%s: the text in %q is empty", where, l)
		case n > limit:
			p.add("%s: %d characters in %q, the limit is %d", where, n, l, limit)
		}
	}
	if t.In(language, language) == "" {
		p.add("%s: the text has no %q, the language of the settings", where, language)
	}
}

func isLanguage(s string) bool {
	return len(s) == 2 && s[0] >= 'a' && s[0] <= 'z' && s[1] >= 'a' && s[1] <= 'z'
}

// name checks the name of a rule, or of a field, which becomes one of the contact's attributes.
func (p *problems) name(where, name string) {
	ok := name != "" && len(name) <= MaxNameChars && name[0] >= 'a' && name[0] <= 'z'
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	if !ok {
		p.add("%s: name %q, want at most %d of a–z, 0–9, _ and -, a letter first", where, name, MaxNameChars)
	}
}
