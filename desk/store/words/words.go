package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what is kept of one text.
const (
	MaxWords     = 2000 // different words of one text; those behind them are not found
	MaxWordRunes = 40   // characters of one word; longer ones are cut
)

// class is what a character is to a search.
type class uint8

const (
	other  class = iota // separates
	letter              // part of a word
	glyph               // a word by itself, as is every pair of them
	joiner              // part of a word that is inside one: combining marks
)

// fold puts a character into the form that is compared: full-width forms become plain, and case goes.
func fold(r rune) rune {
	switch {
	case r >= 0xff01 && r <= 0xff5e: // full-width ASCII
		r -= 0xfee0
	case r == 0x3000: // full-width space
		r = ' '
	}
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// classOf takes a folded character.
func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return letter
		}
		return other
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return glyph
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return letter
	case unicode.Is(unicode.M, r):
		return joiner
	}
	return other
}

// Fold returns the text in the form that is compared. The result has as many characters as the text.
func Fold(text string) string { return strings.Map(fold, strings.ToValidUTF8(text, "\ufffd")) }

// run is a stretch of characters of one class, folded.
type run struct {
	text string
	glyf bool
}

// runs calls f with every run of a folded text until f returns false.
func runs(folded string, f func(run) bool) {
	for i := 0; i < len(folded); {
		r, n := utf8.DecodeRuneInString(folded[i:])
		c := classOf(r)
		if c != letter && c != glyph {
			i += n
			continue
		}
		end := i + n
		for end < len(folded) {
			r, n := utf8.DecodeRuneInString(folded[end:])
			if next := classOf(r); next != c && (next != joiner || c != letter) {
				break
			}
			end += n
		}
		if !f(run{folded[i:end], c == glyph}) {
			return
		}
		i = end
	}
}

// cut returns the beginning of a word.
func cut(word string) string {
	n := 0
	for i := range word {
		if n == MaxWordRunes {
			return word[:i]
		}
		n++
	}
	return word
}

// Of returns the words of a text, each once, at most MaxWords. Words consist of letters, digits and marks only.
func Of(text string) []string {
	var all []string
	have := make(map[string]struct{})
	add := func(w string) bool {
		if _, ok := have[w]; !ok {
			if len(all) == MaxWords {
				return false
			}
			have[w] = struct{}{}
			all = append(all, w)
		}
		return true
	}
	runs(Fold(text), func(r run) bool {
		if !r.glyf {
			return add(cut(r.text))
		}
		return glyphs(r.text, func(one, pair string) bool { return add(one) && (pair == "" || add(pair)) })
	})
	return all
}

// glyphs calls f with every character of a run and the pair that begins with it, "" for the last.
func glyphs(text string, f func(one, pair string) bool) bool {
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		pair := ""
		if i+n < len(text) {
			_, m := utf8.DecodeRuneInString(text[i+n:])
			pair = text[i : i+n+m]
		}
		if !f(text[i:i+n], pair) {
			return false
		}
		i += n
	}
	return true
}
