package websocket

import "unicode/utf8"

// utf8Check validates UTF-8 that comes in pieces: a rune may be cut anywhere.
type utf8Check struct {
	held [utf8.UTFMax]byte // the bytes of an unfinished rune
	n    uint8
}

// feed reports whether everything so far is valid or may still become so.
func (u *utf8Check) feed(p []byte) bool {
	for u.n > 0 && len(p) > 0 {
		u.held[u.n] = p[0]
		u.n++
		p = p[1:]
		if !utf8.FullRune(u.held[:u.n]) {
			continue
		}
		if r, size := utf8.DecodeRune(u.held[:u.n]); r == utf8.RuneError && size == 1 {
			return false
		}
		u.n = 0
	}
	cut := unfinished(p)
	if !utf8.Valid(p[:len(p)-cut]) {
		return false
	}
	if cut > 0 {
		u.n = uint8(copy(u.held[:], p[len(p)-cut:]))
	}
	return true
}

// complete reports whether no rune is unfinished.
func (u *utf8Check) complete() bool { return u.n == 0 }

// unfinished returns how many bytes at the end of p start a rune that is valid
// so far but not complete.
func unfinished(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		tail := p[len(p)-i:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return i
		}
	}
	return 0
}
