package web

import (
	"bytes"
	"path"
)

// Lean returns a script or a style sheet without the lines that hold only a comment, and a script without the comments
// behind its code: browsers need neither. Anything else is returned as it is. Lean changes nothing else, so the result
// can still be read. Any goroutine may call it; content is not changed.
func Lean(name string, content []byte) []byte {
	script := path.Ext(name) == ".js"
	if !script && path.Ext(name) != ".css" {
		return content
	}
	out := make([]byte, 0, len(content))
	comment := false // in a block that began on a line of its own
	for line := range bytes.Lines(content) {
		text := bytes.TrimSpace(line)
		switch {
		case comment:
			comment = !bytes.HasSuffix(text, []byte("*/"))
		case bytes.HasPrefix(text, []byte("/*")) && bytes.HasSuffix(text, []byte("*/")) && bytes.Count(text, []byte("*/")) == 1:
		case bytes.HasPrefix(text, []byte("/*")) && !bytes.Contains(text, []byte("*/")):
			comment = true
		case bytes.HasPrefix(text, []byte("//")) && script:
		case script:
			out = append(out, withoutTail(line)...)
		default:
			out = append(out, line...)
		}
	}
	return out
}

// withoutTail returns a line of a script without the comment behind its code. One that has a quote stays: it may be the
// rest of a text.
func withoutTail(line []byte) []byte {
	at := bytes.Index(line, []byte(" // "))
	if at < 0 || bytes.ContainsAny(line[at:], "'\"`") {
		return line
	}
	return append(bytes.Clone(bytes.TrimRight(line[:at], " \t")), '\n')
}
