package hessian

import (
	"bytes"
	"strconv"
)

// class is a class that the message has defined.
type class struct {
	name   span
	fields int
	wants  []want // of each field; nil = anything
}

// want says which values may stand in field i.
func (c *class) want(i int) want {
	if c.wants == nil {
		return anything
	}
	return c.wants[i]
}

// typeName is the name of the type of a list or a map. Later lists and maps may refer to it by a number.
type typeName struct {
	name       span
	of         target
	collection bool // a list that the decoder knows by another name
	asMap      bool // fields is known: a map had the type
	fields     bool // the decoder makes a struct of a map of the type
}

// define checks the definition of a class and the object that follows it.
func (w *walker) define(at int) error {
	if len(w.classes) >= w.limits.Classes {
		return exceeded(at, "definitions of classes", "Classes", w.limits.Classes)
	}
	c, err := w.class(at)
	if err != nil {
		return err
	}
	w.classes = append(w.classes, c)
	at = w.at
	tag, err := w.byte()
	if err != nil {
		return err
	}
	if !isObject(tag) {
		return fail(at, "the tag %#02x behind the definition of a class, in the place of an object", tag)
	}
	return w.object(at, tag)
}

// class checks the definition of a class.
func (w *walker) class(at int) (c class, err error) {
	from := w.at
	if c.name, err = w.name(); err != nil {
		return c, err
	}
	for i := range w.classes {
		if bytes.Equal(w.in(w.classes[i].name), w.in(c.name)) {
			return c, fail(at, "class %.100q is defined a second time", string(w.in(c.name)))
		}
	}
	var s *shape
	if !w.skips {
		if s, err = shapeOf(w.b[from:w.at], w.in(c.name)); err != nil {
			return c, fail(at, "%v", err)
		}
	}
	if c.fields, err = w.count("fields"); err != nil {
		return c, err
	}
	if c.fields > w.limits.Fields {
		return c, exceeded(at, "fields of a class", "Fields", w.limits.Fields)
	}
	from = w.at
	thrown := 0
	for range c.fields {
		field, err := w.name()
		if err != nil {
			return c, err
		}
		switch string(w.in(field)) {
		case "detailMessage", "suppressedExceptions", "stackTrace", "cause":
			thrown++
		}
	}
	if s == nil && thrown == 4 && !w.skips {
		if !w.limits.Exceptions || !exceptions.admit(w.in(c.name), mostExceptions) {
			return c, fail(at, "class %.100q is an exception that is not registered", string(w.in(c.name)))
		}
		s = unknownException()
	}
	c.wants, err = w.wants(at, from, c.fields, s)
	return c, err
}

// wants returns what may stand in each of the n fields of a class of shape s. The names of the fields begin at offset from.
func (w *walker) wants(at, from, n int, s *shape) ([]want, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.single != nil:
		if n != 1 {
			return nil, fail(at, "a class of %d fields, of which the decoder reads one", n)
		}
		if s.field == "" {
			return s.single, nil
		}
	}
	var wants []want
	end := w.at
	w.at = from
	defer func() { w.at = end }()
	if s.single != nil {
		if field, err := w.name(); err != nil || string(w.in(field)) != s.field {
			return nil, fail(from, "the field of the class is not %q", s.field)
		}
		return s.single, nil
	}
	for i := range n {
		field, err := w.name()
		if err != nil {
			return nil, err
		}
		place, known := s.fields[string(w.in(field))]
		if !known && s.fields != nil && !s.novel.admit(w.in(field), mostFields) {
			return nil, fail(field.from, "field %.100q is not in the Go type, and as many others are not", string(w.in(field)))
		}
		if place != anything {
			if wants == nil {
				wants = make([]want, n)
			}
			wants[i] = place
		}
	}
	return wants, nil
}

// object checks the beginning of an object.
func (w *walker) object(at int, tag byte) (err error) {
	i := int(tag) - 0x60
	if tag == 'O' {
		if i, err = w.count("the class"); err != nil {
			return err
		}
	}
	if i >= len(w.classes) {
		return fail(at, "an object of class %d of the %d that are defined", i, len(w.classes))
	}
	n := w.classes[i].fields
	if n > len(w.b)-w.at {
		return fail(at, "%d fields in the %d bytes that are left", n, len(w.b)-w.at)
	}
	return w.push(at, frame{kind: toObject, left: n, class: i})
}

// name takes a string of one piece and returns where its text is. The names of classes, fields and types are such strings.
func (w *walker) name() (span, error) {
	at := w.at
	tag, err := w.byte()
	if err != nil {
		return span{}, err
	}
	if !isText(tag) || tag == 'R' {
		return span{}, fail(at, "the tag %#02x in the place of a name of one piece", tag)
	}
	return w.text(at, tag)
}

// listType takes the type of a list, and reports whether the decoder makes a collection of the list.
func (w *walker) listType() (collection bool, err error) {
	at := w.at
	if at < len(w.b) && !isText(w.b[at]) {
		if w.skips {
			_, err := w.count("the type")
			return false, err
		}
		_, err := w.typeNumber(toList)
		return false, err
	}
	text, err := w.name()
	if err != nil || w.skips {
		return false, err
	}
	name := w.in(text)
	dimensions := len(name) - len(bytes.TrimLeft(name, "["))
	if dimensions > w.limits.Depth {
		return false, exceeded(at, "dimensions", "Depth", w.limits.Depth)
	}
	if len(name) > 0 && name[0] <= '9' {
		if _, err := strconv.Atoi(string(name)); err == nil {
			return false, fail(at, "the type %.100q of a list is a number, and no type", string(name))
		}
	}
	known := false
	for _, n := range w.names {
		if bytes.Equal(w.in(n.name), name) {
			if known = true; n.of == toList {
				return n.collection, nil
			}
		}
	}
	if collection = isCollection(name); known && !collection {
		return false, nil
	}
	return collection, w.addName(at, typeName{name: text, of: toList, collection: collection})
}

// mapType takes the type of a map, and reports whether the decoder makes a struct of the map. The decoder does not keep the
// types of maps in fields of Go map types.
func (w *walker) mapType(kept bool) (fields bool, err error) {
	at, kept := w.at, kept && !w.skips
	if at < len(w.b) && !isText(w.b[at]) {
		if kept {
			n, err := w.typeNumber(toMap)
			return n.fields, err
		}
		_, err := w.count("the type")
		return false, err
	}
	name, err := w.name()
	if err != nil || !kept {
		return false, err
	}
	var known *typeName
	for i := range w.names {
		if n := &w.names[i]; !n.collection && bytes.Equal(w.in(n.name), w.in(name)) {
			if known = n; n.asMap {
				return n.fields, nil
			}
		}
	}
	fields, err = isStruct(w.b[at:w.at], w.in(name))
	if err != nil {
		return false, fail(at, "%v", err)
	}
	if known != nil {
		known.asMap, known.fields = true, fields
		return fields, nil
	}
	return fields, w.addName(at, typeName{name: name, of: toMap, asMap: true, fields: fields})
}

// addName keeps the name of a type.
func (w *walker) addName(at int, n typeName) error {
	if len(w.names) >= w.limits.Classes {
		return exceeded(at, "names of types", "Classes", w.limits.Classes)
	}
	w.names = append(w.names, n)
	return nil
}

// typeNumber takes a number that stands for the name of a type. The decoder panics unless the type is one of the same kind.
func (w *walker) typeNumber(of target) (typeName, error) {
	at := w.at
	i, err := w.count("the type")
	if err != nil {
		return typeName{}, err
	}
	if w.b[at] == 'I' {
		return typeName{}, fail(at, "the number of a type in the long form, which the decoder misreads")
	}
	nameless := false
	for _, n := range w.names {
		if n.collection || n.name.from == n.name.to {
			if nameless {
				continue // the decoder keeps one type without a name
			}
			nameless = true
		}
		if i--; i < 0 {
			if n.of != of {
				return typeName{}, fail(at, "the number of a type leads from a list to a map, or the other way")
			}
			return n, nil
		}
	}
	return typeName{}, fail(at, "the number of a type that is not defined")
}
