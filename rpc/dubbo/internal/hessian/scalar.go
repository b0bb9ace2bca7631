package hessian

import "unicode/utf8"

func isText(tag byte) bool {
	return tag <= 0x1f || tag >= 0x30 && tag <= 0x33 || tag == 'R' || tag == 'S'
}
func isBinary(tag byte) bool {
	return tag >= 0x20 && tag <= 0x2f || tag >= 0x34 && tag <= 0x37 || tag == 'A' || tag == 'B'
}
func isList(tag byte) bool   { return tag >= 0x55 && tag <= 0x58 || tag >= 0x70 && tag <= 0x7f }
func isObject(tag byte) bool { return tag == 'O' || tag >= 0x60 && tag <= 0x6f }

// scalar returns how many bytes follow the tag of a number, a date, a boolean or null.
func scalar(tag byte) (int, bool) {
	switch {
	case tag >= 0x80 && tag <= 0xbf, tag >= 0xd8 && tag <= 0xef: // one byte: int, long
		return 0, true
	case tag >= 0xc0 && tag <= 0xcf, tag >= 0xf0: // two bytes: int, long
		return 1, true
	case tag >= 0xd0 && tag <= 0xd7, tag >= 0x38 && tag <= 0x3f: // three bytes: int, long
		return 2, true
	}
	switch tag {
	case 'N', 'T', 'F', 0x5b, 0x5c: // null, booleans, 0.0 and 1.0
		return 0, true
	case 0x5d: // a double of one byte
		return 1, true
	case 0x5e: // a double of two bytes
		return 2, true
	case 'I', 0x59, 0x5f, 0x4b: // int, long of 32 bits, double in thousandths, minutes
		return 4, true
	case 'L', 'D', 0x4a: // long, double, milliseconds
		return 8, true
	}
	return 0, false
}

// span is a part of the message. The walker keeps spans, as a pooled walker must not keep the message.
type span struct{ from, to int }

// in returns the bytes of the part.
func (w *walker) in(s span) []byte { return w.b[s.from:s.to] }

// byte takes the next byte.
func (w *walker) byte() (byte, error) {
	if w.at >= len(w.b) {
		return 0, fail(w.at, "cut short")
	}
	w.at++
	return w.b[w.at-1], nil
}

// skip passes over n bytes of the value at offset at.
func (w *walker) skip(at, n int) error {
	if n > len(w.b)-w.at {
		return fail(at, "cut short: %d bytes claimed, %d left", n, len(w.b)-w.at)
	}
	w.at += n
	return nil
}

// count takes an int that is not negative.
func (w *walker) count(of string) (int, error) {
	at := w.at
	tag, err := w.byte()
	if err != nil {
		return 0, err
	}
	n, ok := scalar(tag)
	if !ok || tag < 0x80 && tag != 'I' || tag >= 0xd8 {
		return 0, fail(at, "the number of %s has the tag %#02x", of, tag)
	}
	if err := w.skip(at, n); err != nil {
		return 0, err
	}
	var v int32
	switch n {
	case 0:
		v = int32(tag) - 0x90
	case 1:
		v = int32(tag) - 0xc8
	case 2:
		v = int32(tag) - 0xd4
	}
	for _, b := range w.b[w.at-n : w.at] {
		v = v<<8 | int32(b)
	}
	if v < 0 {
		return 0, fail(at, "the number of %s is negative: %d", of, v)
	}
	return int(v), nil
}

// size takes the length of a string or a piece of one, or of binary data, whose tag has been taken. The short forms begin
// at the tag short.
func (w *walker) size(at int, tag, short byte) (int, error) {
	from, n := w.at, 0
	switch {
	case tag <= 0x1f: // a string
		return int(tag), nil
	case tag <= 0x2f: // binary data
		return int(tag - 0x20), nil
	case tag <= 0x37:
		n = 1
	default:
		n = 2
	}
	if err := w.skip(at, n); err != nil {
		return 0, err
	}
	if n == 1 {
		return int(tag-short)<<8 | int(w.b[from]), nil
	}
	return int(w.b[from])<<8 | int(w.b[from+1]), nil
}

// binary checks binary data, in all its pieces.
func (w *walker) binary(at int, tag byte) error {
	for {
		n, err := w.size(at, tag, 0x34)
		if err != nil {
			return err
		}
		if err := w.skip(at, n); err != nil {
			return err
		}
		if tag != 'A' {
			return nil
		}
		at = w.at
		if tag, err = w.byte(); err != nil {
			return err
		}
		if !isBinary(tag) {
			return fail(at, "the tag %#02x in the place of more binary data", tag)
		}
	}
}

// text checks a string, in all its pieces, and returns where the last is.
func (w *walker) text(at int, tag byte) (span, error) {
	for {
		n, err := w.size(at, tag, 0x30)
		if err != nil {
			return span{}, err
		}
		from := w.at
		if err := w.characters(n); err != nil {
			return span{}, err
		}
		if tag != 'R' {
			return span{from, w.at}, nil
		}
		at = w.at
		if tag, err = w.byte(); err != nil {
			return span{}, err
		}
		if !isText(tag) {
			return span{}, fail(at, "the tag %#02x in the place of more of a string", tag)
		}
	}
}

// characters passes over text of n UTF-16 units. A character beyond U+FFFF is two surrogates of three bytes each. The
// decoder knows neither the form of four bytes nor surrogates that stand alone, and checks no byte but the first.
func (w *walker) characters(n int) error {
	b, i := w.b, w.at
	for n > 0 {
		switch {
		case i >= len(b):
			return fail(i, "cut short: %d characters are missing", n)
		case b[i] < utf8.RuneSelf:
			i++
			n--
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case size > 3:
			return fail(i, "a character of four bytes")
		case r != utf8.RuneError || size == 3:
			i += size
			n--
		case n >= 2 && isPair(b[i:]):
			i += 6
			n -= 2
		default:
			return fail(i, "neither UTF-8 nor a pair of surrogates, or cut short")
		}
	}
	w.at = i
	return nil
}

// isPair reports whether b begins with two surrogates that belong together.
func isPair(b []byte) bool {
	return len(b) >= 6 && b[0] == 0xed && b[1]&0xf0 == 0xa0 && b[2]&0xc0 == 0x80 &&
		b[3] == 0xed && b[4]&0xf0 == 0xb0 && b[5]&0xc0 == 0x80
}
