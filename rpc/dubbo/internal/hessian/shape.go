package hessian

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	hessian2 "github.com/apache/dubbo-go-hessian2"
	big "github.com/dubbogo/gost/math/big"
)

// shape says how the decoder reads the objects of a registered class.
type shape struct {
	fields map[string]want // what may stand in each field, by all its names
	single []want          // the decoder reads one field, whatever the definition says
	field  string          // the name of that field, if it matters
	novel  names           // of fields that the Go type does not have
}

// names are names from messages that the decoder keeps for the rest of the process. Few are legitimate: they come from other
// versions of a class. Their number and their length are bounded.
type names struct {
	mu   sync.RWMutex
	seen map[string]bool
}

// admit reports whether the decoder may keep the name.
func (n *names) admit(name []byte, most int) bool {
	n.mu.RLock()
	seen := n.seen[string(name)]
	n.mu.RUnlock()
	if seen || len(name) > mostName {
		return seen
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	if len(n.seen) < most {
		n.seen[string(name)] = true
	}
	return n.seen[string(name)]
}

const (
	mostName       = 256  // bytes of a name that the decoder keeps
	mostFields     = 64   // unknown fields of one registered class
	mostExceptions = 1024 // classes of exceptions that are not registered
)

var (
	enums = &shape{single: []want{aName}}
	// decimals need the text of a number: the decoder leaves all containers around others, with an error.
	decimals = &shape{single: []want{aDecimal}, field: "value"}
	dates    = &shape{single: []want{aDate}}
	free     = &shape{}

	unknownException = sync.OnceValue(func() *shape { return structShape(reflect.TypeFor[hessian2.UnknownException]()) })

	exceptions names // of classes, with Limits.Exceptions

	shapesMu sync.RWMutex
	shapes   = map[string]*shape{} // of registered classes, by name; the names in messages cannot make it grow
	structs  = map[string]bool{}   // whether a registered type is anything but a map, likewise
)

// shapeOf returns the shape of a registered class, and nil for other classes. Encoded is the name as it stands in the message.
// It asks the decoder about other classes each time, as they may be registered later.
func shapeOf(encoded, name []byte) (*shape, error) {
	shapesMu.RLock()
	s := shapes[string(name)]
	shapesMu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := findShape(encoded, string(name))
	if s != nil && s != unknownException() {
		shapesMu.Lock()
		shapes[string(name)] = s
		shapesMu.Unlock()
	}
	return s, err
}

// findShape finds a shape by means of the decoder, as the registry itself is not exported.
func findShape(encoded []byte, name string) (*shape, error) {
	if s, ok := hessian2.GetSerializer(name); ok {
		switch s.(type) {
		case hessian2.DecimalSerializer:
			return decimals, nil
		case hessian2.IntegerSerializer:
			return structShape(reflect.TypeFor[big.Integer]()), nil
		case hessian2.JavaSqlTimeSerializer:
			return dates, nil
		case hessian2.JavaCollectionSerializer:
			return nil, fmt.Errorf("class %.100q is a collection, and no object", name)
		}
		return free, nil
	}
	// An object without fields. The decoder takes the null behind it as the name of an enum.
	v, err, panicked := probe('C', encoded, 0x90, 0x60, 'N')
	if panicked { // in EnumValue
		return enums, nil
	}
	if err != nil {
		return nil, fmt.Errorf("class %.100q does not decode as an object", name)
	}
	if _, ok := v.(map[string]any); ok {
		return nil, nil
	}
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("class %.100q decodes as %v", name, t)
	}
	switch t := t.Elem(); {
	case t.Implements(reflect.TypeFor[hessian2.POJOEnum]()):
		return enums, nil
	case t == reflect.TypeFor[hessian2.UnknownException]():
		return unknownException(), nil
	case t.Kind() == reflect.Struct:
		return structShape(t), nil
	}
	return nil, fmt.Errorf("class %.100q decodes as %v", name, t)
}

// probe decodes a message of a tag, a name and more.
func probe(tag byte, encoded []byte, more ...byte) (v any, err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	b := append([]byte{tag}, encoded...)
	b = append(b, more...)
	v, err = hessian2.NewDecoderSize(b, 16).Decode()
	return v, err, false
}

// isStruct reports whether the decoder makes anything but a map of a map of this type. Then each key must be a string: the
// decoder stops at others with an error, in the middle of the map, and prints them.
func isStruct(encoded, name []byte) (bool, error) {
	shapesMu.RLock()
	is, known := structs[string(name)]
	shapesMu.RUnlock()
	if known {
		return is, nil
	}
	v, err, panicked := probe('M', encoded, 'Z')
	if err != nil || panicked || v == nil {
		return false, fmt.Errorf("type %.100q does not decode as a map", name)
	}
	t := reflect.TypeOf(v)
	is = t.Kind() != reflect.Map
	if t != reflect.TypeFor[map[any]any]() && t != reflect.TypeFor[hessian2.UnknownException]() {
		shapesMu.Lock()
		structs[string(name)] = is
		shapesMu.Unlock()
	}
	return is, nil
}

// isDecimal reports whether the decoder makes a decimal number of the text.
func isDecimal(text string) bool { return new(big.Decimal).FromString(text) == nil }

// isCollection reports whether the decoder makes a collection of a list of this type.
func isCollection(name []byte) bool {
	s, ok := hessian2.GetSerializer(string(name))
	if ok {
		_, ok = s.(hessian2.JavaCollectionSerializer)
	}
	return ok
}

// structShape returns the shape of a struct.
func structShape(t reflect.Type) *shape {
	s := &shape{fields: map[string]want{}}
	s.add(t)
	return s
}

// add adds the fields of t under all names by which the decoder finds them. The first field with a name has it.
func (s *shape) add(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		place := fieldWant(f)
		lower, size := utf8.DecodeRuneInString(f.Name)
		names := []string{f.Name, string(unicode.ToLower(lower)) + f.Name[size:], strings.ToLower(f.Name)}
		if tag, ok := f.Tag.Lookup("hessian"); ok {
			names = append(names, tag)
		}
		for _, name := range names {
			if _, ok := s.fields[name]; !ok {
				s.fields[name] = place
			}
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			s.add(f.Type)
		}
	}
}

// fieldWant says which values the decoder reads into a field.
func fieldWant(f reflect.StructField) want {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case f.PkgPath != "":
		return unread
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return aList
	case t.Kind() == reflect.Map:
		return aMap
	}
	return anything
}
