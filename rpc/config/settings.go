package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// form is what a file is written in.
type form uint8

const (
	formYAML form = iota
	formProperties
	formXML
)

var firstProperty = regexp.MustCompile(`^[\w.\-]+\s*=`)

// formOf goes by the ending of the file's name, or else by what stands first in it.
func formOf(name string, data []byte) form {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return formYAML
	case ".properties":
		return formProperties
	case ".xml":
		return formXML
	}
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#' || line[0] == '!':
		case line[0] == '<':
			return formXML
		case firstProperty.Match(line):
			return formProperties
		default:
			return formYAML
		}
	}
	return formYAML
}

const (
	maxSettings = 20_000 // of one file
	maxDepth    = 12     // of keys in keys
)

// setting is one value of a file of Dubbo's form, whose key is written as a path: dubbo.protocol.port.
type setting struct {
	path  []string
	line  int
	value *yaml.Node // a scalar or a list
}

func (s setting) key() string { return strings.Join(s.path, ".") }

// ofDubbo reports whether a file of YAML has its keys below dubbo, as Spring's files do.
func ofDubbo(root *yaml.Node) bool {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		if key := named(root.Content[i]).Value; key == "dubbo" || strings.HasPrefix(key, "dubbo.") {
			return true
		}
	}
	return false
}

// flatten takes the settings of a mapping. Keys may be paths themselves, as Spring has it.
func (r *reader) flatten(n *yaml.Node, path []string, take func(setting)) {
	r.pairs(n, strings.Join(path, "."), func(key, value *yaml.Node, name string) {
		if !r.room(key) {
			return
		}
		path := append(slices.Clone(path), strings.Split(name, ".")...)
		switch {
		case len(path) > maxDepth:
			r.fail(key, quoted(strings.Join(path, ".")), "", "has more than %d parts", maxDepth)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			r.flatten(value, path, take)
		default:
			if value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
				value = scalar(value.Value, value.Line)
			}
			take(setting{path, key.Line, value})
		}
	})
}

var (
	wholeNumber  = regexp.MustCompile(`^-?[0-9]+$`)
	placeholders = regexp.MustCompile(`\$\{[^}]*\}?`)
)

// scalar is a value as YAML would have it, if nobody had put it in quotes: the other formats have no types, and Spring's YAML converts them.
func scalar(text string, line int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(text), Line: line}
	switch lower := strings.ToLower(n.Value); {
	case lower == "true" || lower == "false":
		n.Tag, n.Value = "!!bool", lower
	case wholeNumber.MatchString(n.Value):
		n.Tag = "!!int"
	}
	return n
}

// settings makes a document of the settings that each calls with.
func (r *reader) settings(each func(take func(setting))) *document {
	b := blocks{r: r}
	each(func(s setting) {
		if !r.placeholder(s.value, shownKey(s.key())) {
			b.take(s)
		}
	})
	return r.dubbo(&b)
}

// room counts a key, and refuses those beyond the bound. The keys of an alias count wherever it is used.
func (r *reader) room(n *yaml.Node) bool {
	if r.keys++; r.keys == maxSettings+1 {
		r.errs = append(r.errs[:min(len(r.errs), maxErrors-1)], &Error{File: r.file, Line: max(n.Line, 1), Problem: fmt.Sprintf("the file has more than %d keys", maxSettings)})
	}
	return r.keys <= maxSettings
}

// placeholder refuses a value with a placeholder, and reports whether it has one.
func (r *reader) placeholder(n *yaml.Node, key string) bool {
	at := placeholders.FindString(n.Value)
	if at != "" {
		r.fail(n, key, quoted(n.Value), "has the placeholder %s: placeholders are not replaced here, write the value", quoted(at))
	}
	return at != ""
}

// shownKey is a key as errors show it.
func shownKey(key string) string {
	if len(key) > 2*maxName || !printable(key) {
		return quoted(key)
	}
	return key
}

// block is the keys of one application, protocol, registry, service and so on.
type block struct {
	kind, id string
	path     string // for errors
	node     *yaml.Node
	lines    map[string]int // of its keys
}

func newBlock(kind, id, path string, line int) *block {
	return &block{kind: kind, id: id, path: path, node: &yaml.Node{Kind: yaml.MappingNode, Line: line}, lines: map[string]int{}}
}

// set adds a key. Spellings of Java and the prefix of parameters are those of the key without.
func (b *block) set(r *reader, key string, line int, value *yaml.Node) {
	key = strings.TrimPrefix(kebab(key), "parameters.")
	at := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: line}
	first, ok := b.lines[key]
	if from := r.origins[value]; from != "" {
		if r.origins[at] = from; ok {
			if !r.below {
				b.replace(key, at, value)
			}
			return
		}
	}
	if ok {
		r.fail(at, shownKey(b.path+"."+key), "", twice, first)
		return
	}
	b.lines[key] = line
	if key == "id" {
		b.id = value.Value
	}
	b.node.Content = append(b.node.Content, at, value)
}

// add appends another block to the list that is a key's value.
func (b *block) add(r *reader, key string, item *block) {
	list := b.value(key)
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode, Line: item.node.Line}
		b.set(r, key, list.Line, list)
	}
	list.Content = append(list.Content, item.node)
}

// replace sets a key that is there.
func (b *block) replace(key string, at, value *yaml.Node) {
	for i := 0; i+1 < len(b.node.Content); i += 2 {
		if b.node.Content[i].Value == key {
			b.node.Content[i], b.node.Content[i+1] = at, value
		}
	}
}

// value is that of a key, nil if it is not there.
func (b *block) value(key string) *yaml.Node {
	for i := 0; i+1 < len(b.node.Content); i += 2 {
		if b.node.Content[i].Value == key {
			return b.node.Content[i+1]
		}
	}
	return nil
}

// inherit adds the keys of another block that this one does not have.
func (b *block) inherit(from *block, names []string) {
	for i := 0; from != nil && i+1 < len(from.node.Content); i += 2 {
		key := from.node.Content[i]
		if _, ok := b.lines[key.Value]; !ok && slices.Contains(names, key.Value) {
			b.node.Content = append(b.node.Content, key, from.node.Content[i+1])
		}
	}
}

// kebab writes a name of Java as Dubbo's files have it: dumpEnable is dump-enable.
func kebab(name string) string {
	if !strings.ContainsFunc(name, func(c rune) bool { return unicode.IsUpper(c) || c == '_' }) {
		return name
	}
	var b strings.Builder
	for i, c := range name {
		switch {
		case c == '_':
			b.WriteByte('-')
		case unicode.IsUpper(c):
			if i > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
