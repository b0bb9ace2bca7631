// Package mask hides e-mail addresses, telephone numbers and card numbers in texts, for staff who may not see them.
package mask

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	dots      = "•••"
	maxGroups = 12 // digit groups that may form one number
	maxDigits = 19 // no card or telephone number has more
	maxGap    = 2  // separators between two groups of one number
)

// email is an address in the forms that people write: no quotes, no comments.
var email = regexp.MustCompile(`[\p{L}\p{N}._%+\-]+[@＠][\p{L}\p{N}\-]+(?:[.．。][\p{L}\p{N}\-]+)+`)

// Text returns s with private parts hidden. An e-mail address keeps its first letter and the last part of the domain. A
// card number keeps its last four digits, a telephone number its last two. Any goroutine may call it.
func Text(s string) string {
	if !strings.ContainsFunc(s, isDigit) && !strings.ContainsAny(s, "@＠") {
		return s
	}
	return numbers(email.ReplaceAllStringFunc(s, hideEmail))
}

func hideEmail(s string) string {
	first, _ := utf8.DecodeRuneInString(s)
	last := s[strings.LastIndexFunc(s, func(r rune) bool { return r == '.' || r == '．' || r == '。' }):]
	return string(first) + dots + "@" + dots + last
}

// isDigit reports whether r is a digit, wide ones of Chinese and Japanese keyboards included.
func isDigit(r rune) bool { return (r >= '0' && r <= '9') || (r >= '０' && r <= '９') }

func isGap(r rune) bool {
	return strings.ContainsRune(" .-/()\u00a0\u2010\u2011\u2012\u2013\u3000－（）", r)
}

func isPlus(r rune) bool { return r == '+' || r == '＋' }

// group is a run of digits: its place, and its digits in plain form.
type group struct {
	from, to int
	digits   []byte
	plus     bool // a plus stands before it
	bracket  bool // a bracket stands before it
}

// numbers hides the numbers in a text. It collects groups of digits with little between them, and checks each stretch of
// them, the longest first.
func numbers(s string) string {
	var b strings.Builder
	done := 0
	for _, run := range runs(s) {
		for i := 0; i < len(run); {
			n, shown := longest(run[i:])
			if n == 0 {
				i++
				continue
			}
			last := run[i+n-1]
			b.WriteString(s[done:run[i].from])
			b.WriteString(dots)
			b.Write(last.digits[max(0, len(last.digits)-shown):])
			done = last.to
			i += n
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// longest returns how many of the first groups form one private number, 0 if none, and how many digits stay.
func longest(run []group) (n, shown int) {
	for n := min(len(run), maxGroups); n > 0; n-- {
		var digits []byte
		for _, g := range run[:n] {
			if digits = append(digits, g.digits...); len(digits) > maxDigits {
				break
			}
		}
		switch d := string(digits); {
		case isCard(d):
			return n, 4
		case isPhone(d, run[:n]):
			return n, 2
		}
	}
	return 0, 0
}

// runs returns the groups of digits of a text. Groups with little between them are in one run.
func runs(s string) [][]group {
	var all [][]group
	var run []group
	gaps, end := 0, -1
	plus, bracket := false, false
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case isDigit(r):
			if end == i && len(run) > 0 {
				g := &run[len(run)-1]
				g.digits, g.to = append(g.digits, digit(r)), i+size
			} else {
				if len(run) > 0 && (plus || gaps > maxGap) {
					all, run = append(all, run), nil
				}
				run = append(run, group{i, i + size, []byte{digit(r)}, plus, bracket})
			}
			end, gaps, plus, bracket = i+size, 0, false, false
		case isPlus(r):
			plus, gaps = true, gaps+1
		case isGap(r):
			gaps++
			bracket = bracket || r == '(' || r == '（'
		default:
			if len(run) > 0 {
				all, run = append(all, run), nil
			}
			gaps, plus, bracket = 0, false, false
		}
		i += size
	}
	if len(run) > 0 {
		all = append(all, run)
	}
	return all
}

func digit(r rune) byte {
	if r >= '０' {
		r = r - '０' + '0'
	}
	return byte(r)
}

// isCard reports whether the digits are a card number: of the right length and with the right check digit (ISO/IEC 7812-1).
func isCard(d string) bool {
	if len(d) < 13 || len(d) > 19 || strings.Count(d, d[:1]) == len(d) {
		return false
	}
	sum := 0
	for i := range len(d) {
		v := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

var (
	mobileCN = regexp.MustCompile(`^(?:(?:00)?86)?1[3-9][0-9]{9}$`)
	nanp     = regexp.MustCompile(`^1?[2-9][0-9]{2}[2-9][0-9]{6}$`)
)

// isPhone reports whether the groups are a telephone number. A plain run of digits must have the form of one, so that
// order numbers stay readable.
func isPhone(d string, g []group) bool {
	n := len(d)
	switch {
	case n < 7 || n > 17:
		return false
	case g[0].plus:
		return n <= 15
	case isDate(g):
		return false
	case mobileCN.MatchString(d):
		return true
	case d[0] == '0':
		return n >= 9 || (len(g) > 1 && n >= 8)
	case bracketed(g):
		return n >= 8 && n <= 15
	case nanp.MatchString(d), len(g) == 3 && len(g[0].digits) == 3 && len(g[1].digits) == 3 && len(g[2].digits) == 4:
		return true
	}
	return false
}

func bracketed(g []group) bool { return g[0].bracket && len(g) > 1 }

// isDate reports whether the groups are, or begin with, day, month and year in some order.
func isDate(g []group) bool {
	if len(g) < 3 {
		return false
	}
	a, b, c := len(g[0].digits), len(g[1].digits), len(g[2].digits)
	return (a <= 2 && b <= 2 && (c == 4 || c == 2 && len(g) == 3)) || (a == 4 && b <= 2 && c <= 2)
}
