package bot

import (
	"slices"
	"strings"
	"unicode"
)

// unspaced reports whether r belongs to a script that is written without spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

func hasHan(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// fold removes what does not matter for a comparison: case, and the wide forms of ASCII from Chinese keyboards.
func fold(s string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '\u3000':
			return ' '
		}
		return r
	}, s))
}

// words returns the words of a folded text: runs of letters, digits and marks. A run in a script without spaces is one
// word, apart from what stands around it.
func words(s string) []string {
	var list []string
	begin, kind := 0, 0
	for i, r := range s {
		now := 0
		switch {
		case unspaced(r):
			now = 2
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r) && kind == 1:
			now = 1
		}
		if now != kind {
			if kind != 0 {
				list = append(list, s[begin:i])
			}
			begin, kind = i, now
		}
	}
	if kind != 0 {
		list = append(list, s[begin:])
	}
	return list
}

// keyword is a keyword prepared for the search.
type keyword struct {
	words []string
	part  string // not empty: found anywhere, because its script has no spaces
}

func newKeyword(s string) keyword {
	s = fold(s)
	if strings.ContainsFunc(s, unspaced) {
		return keyword{part: strings.TrimSpace(s)}
	}
	return keyword{words: words(s)}
}

// in reports whether the keyword is in a text. folded is the text after fold, and all its words.
func (k keyword) in(folded string, all []string) bool {
	if k.part != "" {
		return strings.Contains(folded, k.part)
	}
	for i := 0; i+len(k.words) <= len(all); i++ {
		if slices.Equal(all[i:i+len(k.words)], k.words) {
			return true
		}
	}
	return false
}
