package bot

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	maxEmail   = 254 // RFC 5321 section 4.5.3.1.3, less the brackets
	minTel     = 5   // digits
	maxTel     = 15  // ITU-T E.164
	telSymbols = " -–.()/"
)

// Parse returns the value of a customer's answer, or false if the answer is not of the field's type.
func (f *Field) Parse(answer string) (string, bool) {
	answer = strings.TrimSpace(answer)
	if answer == "" || utf8.RuneCountInString(answer) > store.MaxAttributeChars {
		return "", false
	}
	switch f.Type {
	case FieldEmail:
		return parseEmail(answer)
	case FieldTel:
		return parseTel(answer)
	}
	return answer, !strings.ContainsFunc(answer, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// parseEmail takes an address alone or within a sentence, like "it is ann@example.com."
func parseEmail(answer string) (string, bool) {
	for _, word := range strings.FieldsFunc(fold(answer), func(r rune) bool {
		return unicode.IsSpace(r) || unspaced(r) || strings.ContainsRune("<>,;，；。：", r)
	}) {
		word = strings.TrimRight(word, ".!?)")
		at := strings.LastIndexByte(word, '@')
		if at <= 0 || len(word) > maxEmail || !strings.Contains(word[at:], ".") || strings.ContainsAny(word, `"()[]:`) {
			continue
		}
		if a, err := mail.ParseAddress(word); err == nil && a.Address == word {
			return word, true
		}
	}
	return "", false
}

// parseTel keeps the digits of a number, and a plus in front.
func parseTel(answer string) (string, bool) {
	var b strings.Builder
	for i, r := range fold(answer) {
		switch {
		case r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == '+' && i == 0:
			b.WriteRune(r)
		case !strings.ContainsRune(telSymbols, r):
			return "", false
		}
	}
	n := len(strings.TrimPrefix(b.String(), "+"))
	return b.String(), n >= minTel && n <= maxTel
}
