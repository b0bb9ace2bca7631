package http1

import "strings"

// Character classes: token (RFC 9110 section 5.6.2), field value (RFC 9110
// section 5.5), request target and host (RFC 3986). One table holds them all.
const (
	classToken = 1 << iota
	classTarget
	classHost
	classValue
	classHex
	classPlainPath // what net/url neither decodes nor encodes in a path
)

// classes maps each byte to the classes it belongs to.
var classes = buildClasses() //nolint:gochecknoglobals // a table, never written again

func buildClasses() (t [256]uint8) {
	mark := func(chars string, class uint8) {
		for i := range len(chars) {
			t[chars[i]] |= class
		}
	}
	const alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	mark(alnum+"!#$%&'*+-.^_`|~", classToken)
	// Every visible ASCII character but the fragment mark. A fragment is never
	// sent (RFC 9112 section 3.2), and servers would disagree whether to cut it
	// off.
	for c := 0x21; c <= 0x7e; c++ {
		if c != '#' {
			t[c] |= classTarget
		}
		t[c] |= classValue
	}
	mark(" \t", classValue)
	for c := 0x80; c <= 0xff; c++ {
		t[c] |= classValue
	}
	mark(alnum+"-._~%!$&'()*+,;=:[]", classHost)
	mark("0123456789abcdefABCDEF", classHex)
	mark(alnum+"-._~/$&+,:;=@", classPlainPath)
	return t
}

// all reports whether every byte of s belongs to the class.
func all[S []byte | string](s S, class uint8) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// trimLeft cuts optional white space (SP and HTAB only) off the start of s.
func trimLeft[S []byte | string](s S) S {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// trimSpace cuts optional white space off both ends.
func trimSpace[S []byte | string](s S) S {
	s = trimLeft(s)
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// equalFold reports whether s equals lower without regard to ASCII case. lower
// must be lower case.
func equalFold[S []byte | string](s S, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// hasToken reports whether the comma-separated list holds the token lower,
// without regard to case.
func hasToken(list, lower string) bool {
	for len(list) > 0 {
		item := list
		if i := strings.IndexByte(list, ','); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = ""
		}
		if equalFold(trimSpace(item), lower) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
