package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// properties reads a file of Java's properties: a key and a value in each line, which a backslash at its end continues.
func (r *reader) properties(data []byte) *document {
	return r.settings(func(take func(setting)) { r.lines(data, take) })
}

// lines takes the settings of a file of properties.
func (r *reader) lines(data []byte, take func(setting)) {
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	for i := 0; i < len(lines) && !r.full() && r.keys <= maxSettings; i++ {
		first, text := i+1, strings.TrimLeft(strings.TrimSuffix(lines[i], "\r"), " \t")
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		for continued(text) && i+1 < len(lines) {
			i++
			text = text[:len(text)-1] + strings.TrimLeft(strings.TrimSuffix(lines[i], "\r"), " \t")
		}
		key, value, err := property(text)
		at := &yaml.Node{Line: first}
		switch {
		case err != nil:
			r.fail(at, "", quoted(text), "%v", err)
		case key == "":
			r.fail(at, "", quoted(text), "has no key: write key=value")
		case strings.Count(key, ".") >= maxDepth:
			r.fail(at, quoted(key), "", "has more than %d parts", maxDepth)
		case r.room(at):
			take(setting{strings.Split(key, "."), first, scalar(value, first)})
		}
	}
}

// continued reports whether a line ends with a backslash that is not escaped itself.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// property splits a line at the first '=', ':' or space that is not escaped.
func property(line string) (key, value string, err error) {
	at := 0
	for at < len(line) && !strings.ContainsRune("=: \t", rune(line[at])) {
		if line[at] == '\\' {
			at++
		}
		at++
	}
	at = min(at, len(line))
	if key, err = unescape(line[:at]); err != nil {
		return "", "", err
	}
	rest := strings.TrimLeft(line[at:], " \t")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t")
	}
	value, err = unescape(rest)
	return key, value, err
}

// unescape replaces what begins with a backslash.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n', 'r', 'f':
			return "", fmt.Errorf(`has the control character \%c`, s[i])
		case 'u':
			n, err := strconv.ParseUint(s[i+1:min(i+5, len(s))], 16, 16)
			if err != nil || i+5 > len(s) || n < ' ' || n >= 0xd800 && n < 0xe000 {
				return "", fmt.Errorf(`has a \u without the four digits of a character`)
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}
