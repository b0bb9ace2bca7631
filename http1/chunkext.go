package http1

// validExtensions reports whether ext, which follows the size of a chunk, has this grammar (RFC 9112 section 7.1.1):
//
//	chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
//
// A name is a token, a value a token or a quoted string.
func validExtensions(ext []byte) bool {
	for len(ext) > 0 {
		var ok bool
		if ext, ok = afterByte(ext, ';'); !ok {
			return false
		}
		if ext, ok = afterToken(ext); !ok {
			return false
		}
		value, ok := afterByte(ext, '=')
		if !ok {
			continue
		}
		if len(value) > 0 && value[0] == '"' {
			ext, ok = afterQuoted(value)
		} else {
			ext, ok = afterToken(value)
		}
		if !ok {
			return false
		}
	}
	return true
}

// afterByte returns the rest of b behind c and the optional white space around c.
func afterByte(b []byte, c byte) ([]byte, bool) {
	if b = trimLeft(b); len(b) == 0 || b[0] != c {
		return nil, false
	}
	return trimLeft(b[1:]), true
}

// afterToken returns the rest of b behind the token at its start.
func afterToken(b []byte) ([]byte, bool) {
	n := 0
	for n < len(b) && classes[b[n]]&classToken != 0 {
		n++
	}
	return b[n:], n > 0
}

// afterQuoted returns the rest of b behind the quoted string (RFC 9110 section 5.6.4) at its start.
func afterQuoted(b []byte) ([]byte, bool) {
	for i := 1; i < len(b) && classes[b[i]]&classValue != 0; i++ {
		switch b[i] {
		case '"':
			return b[i+1:], true
		case '\\':
			if i++; i == len(b) || classes[b[i]]&classValue == 0 {
				return nil, false
			}
		}
	}
	return nil, false
}
