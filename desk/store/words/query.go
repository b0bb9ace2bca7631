package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxTerms is the largest number of words of one query.
const MaxTerms = 32

// Query is a parsed search. Every word must be in the text, and parts written without a blank must be together there.
type Query struct {
	Terms []string // words to look up, each once
	parts []string // folded, as they were written
}

// Parse makes a query of a typed text. ok is false if there is no word in it, or more than MaxTerms.
func Parse(text string) (q Query, ok bool) {
	for part := range strings.FieldsFuncSeq(Fold(text), unicode.IsSpace) {
		terms := partTerms(part)
		if len(terms) == 0 {
			continue
		}
		q.parts = append(q.parts, strings.TrimFunc(part, func(r rune) bool { return classOf(r) == other }))
		for _, t := range terms {
			if !slices.Contains(q.Terms, t) {
				q.Terms = append(q.Terms, t)
			}
		}
		if len(q.Terms) > MaxTerms {
			return Query{}, false
		}
	}
	return q, len(q.Terms) > 0
}

// partTerms returns the fewest words by which a part is found. Pairs stand for their characters.
func partTerms(part string) []string {
	var terms []string
	runs(part, func(r run) bool {
		if !r.glyf {
			terms = append(terms, cut(r.text))
			return len(terms) <= MaxTerms
		}
		return glyphs(r.text, func(one, pair string) bool {
			switch {
			case pair != "":
				terms = append(terms, pair)
			case one == r.text:
				terms = append(terms, one)
			}
			return len(terms) <= MaxTerms
		})
	})
	return terms
}

// Has reports whether all the Terms are among the words of a text.
func (q *Query) Has(list []string) bool {
	return !slices.ContainsFunc(q.Terms, func(term string) bool { return !slices.Contains(list, term) })
}

// Match reports whether a text that has all the Terms has every part as it was written.
func (q *Query) Match(text string) bool {
	folded := Fold(text)
	for _, p := range q.parts {
		if !strings.Contains(folded, p) {
			return false
		}
	}
	return true
}

// Snippet returns the stretch of a text around the first part that is found, at most n characters in one line.
func (q *Query) Snippet(text string, n int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	all := []rune(strings.Map(oneLine, text))
	if len(all) <= n {
		return string(all)
	}
	from := max(0, min(q.first(Fold(text))-n/3, len(all)-n))
	to := from + n
	out := slices.Clone(all[from:to])
	if from > 0 {
		out[0] = '…'
	}
	if to < len(all) {
		out[n-1] = '…'
	}
	return string(out)
}

// first returns the position, in characters, of the first part found.
func (q *Query) first(folded string) int {
	at := -1
	for _, p := range q.parts {
		if i := strings.Index(folded, p); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return 0
	}
	return utf8.RuneCountInString(folded[:at])
}

// oneLine replaces what would break a line or change its direction.
func oneLine(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Bidi_Control, r) {
		return ' '
	}
	return r
}
