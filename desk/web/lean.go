package web

import (
	"bytes"
	"path"
)

// Lean returns a script or a style sheet without the lines that hold only a comment, which browsers do not need.
// Anything else is returned as it is. Lean changes no other line, so the result can still be read. Any goroutine may
// call it; content is not changed.
func Lean(name string, content []byte) []byte {
	if ext := path.Ext(name); ext != ".js" && ext != ".css" {
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
		case bytes.HasPrefix(text, []byte("//")) && path.Ext(name) == ".js":
		default:
			out = append(out, line...)
		}
	}
	return out
}
