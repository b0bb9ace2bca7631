// Package hessian checks Hessian 2.0 messages before dubbo-go-hessian2 decodes them. That decoder recurses as deep as its
// input says, allocates what its input claims, and after some errors it goes on in the middle of a value. Check accepts
// messages for which none of this happens:
//
//	rest, err := hessian.Check(b, 1, hessian.Limits{})
//	if err == nil {
//		v, err = hessian2.NewDecoder(b).Decode()
//	}
//
// Decode can still panic: it sets fields by reflection and does not compare types, so a string in the place of a number
// panics. The caller must recover. Such a panic has no other consequences.
//
// The promises hold for the decoders that NewDecoder and NewDecoderSize return, with the struct tag "hessian". They do not
// extend to code of the application: its serializers, and the EnumValue and Set methods of its types.
package hessian

import (
	"fmt"
	"sync"
)

// Limits bound one message. A field that is zero or negative has its default.
type Limits struct {
	Depth   int // levels of lists, maps and objects, and dimensions of the type of a list; default 64
	Values  int // values in all; the decoder allocates up to about 1 KiB for each; default 65536
	Classes int // definitions of classes, and as many names of types; default 256
	Fields  int // fields of one class; default 256

	// Exceptions accepts exceptions of classes that are not registered, up to 1024 such classes in the life of the
	// process. The decoder registers each of them for good, so leave it false where strangers name the classes.
	Exceptions bool
}

// Check walks the n values at the beginning of b, without decoding them, and returns the bytes behind them. The error
// names the limit that was exceeded, or says what is wrong, and at which offset.
//
// A reference can lead to a container that encloses it. The decoder then returns a value that contains itself, and the
// application must expect that. A reference to nothing decodes as nil.
//
// Fields that the Go type of a registered class does not have are accepted, as the decoder skips them. It keeps their names
// for good, so Check accepts at most 64 such names for each class in the life of the process.
func Check(b []byte, n int, l Limits) (rest []byte, err error) {
	l = l.WithDefaults()
	w := walkers.Get().(*walker)
	defer w.release()
	w.b, w.limits = b, l
	for range n {
		if err := w.walk(); err != nil {
			return nil, err
		}
	}
	return b[w.at:], nil
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// release returns w to the pool.
func (w *walker) release() {
	clear(w.classes)
	*w = walker{stack: w.stack[:0], refs: w.refs[:0], classes: w.classes[:0], names: w.names[:0]}
	walkers.Put(w)
}

// WithDefaults returns the limits with the defaults of those that are not set.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Depth, 64}, {&l.Values, 1 << 16}, {&l.Classes, 256}, {&l.Fields, 256}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}

// want says which values may stand in a place. Where the decoder knows the Go type, it reads some types after a look at
// the tag only. An error there would leave it behind the tag, in the middle of the value.
type want byte

const (
	anything   want = iota
	aList           // the Go type is a slice or an array
	aMap            // the Go type is a map
	aName           // the name of a constant of an enum
	aDecimal        // the text of a decimal number
	aDate           // the time of a java.sql type
	aKey            // a key of a map
	aFieldName      // a key of a map that the decoder makes a struct of
	unread          // the decoder takes the value for that of the next field
)

// target says what a reference leads to.
type target byte

const (
	toList target = iota
	toMap
	toObject
)

// frame is a container that is not at its end.
type frame struct {
	kind   target
	open   bool // ends with 'Z'
	half   bool // a map: the value of a key is next
	fields bool // a map: the decoder makes a struct of it
	noNull bool // a map: no key is null
	left   int  // elements or fields to come
	class  int  // the class of an object
}

// walker checks one message.
type walker struct {
	b       []byte
	at      int
	limits  Limits
	skips   bool // nobody decodes the values: what the decoder knows of their types does not matter
	values  int
	lists   int // and references
	work    int // visits to lists
	stack   []frame
	refs    []target
	classes []class
	names   []typeName
}

// fail returns an error about the byte at offset at.
func fail(at int, format string, args ...any) error {
	return fmt.Errorf("hessian: offset %d: %s", at, fmt.Sprintf(format, args...))
}

// exceeded returns an error about a limit.
func exceeded(at int, what, limit string, value int) error {
	return fail(at, "%s: more than Limits.%s, %d", what, limit, value)
}

// walk checks one value with all that it contains.
func (w *walker) walk() error {
	if err := w.value(anything); err != nil {
		return err
	}
	for len(w.stack) > 0 {
		f := &w.stack[len(w.stack)-1]
		want, more, err := w.next(f)
		switch {
		case err != nil:
			return err
		case !more:
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		if err := w.value(want); err != nil {
			return err
		}
	}
	return nil
}

// next says what follows in f, or that f is at its end.
func (w *walker) next(f *frame) (want, bool, error) {
	switch {
	case f.open && f.half:
		f.half = false
		return anything, true, w.spend()
	case f.open:
		if w.at < len(w.b) && w.b[w.at] == 'Z' {
			w.at++
			return anything, false, nil
		}
		if f.kind == toList {
			return anything, true, nil
		}
		f.half = true
		if f.noNull && w.at < len(w.b) && w.b[w.at] == 'N' {
			return aKey, false, fail(w.at, "null is a key of a map that cannot have it")
		}
		if f.fields {
			return aFieldName, true, w.spend()
		}
		return aKey, true, w.spend()
	case f.left == 0:
		return anything, false, nil
	}
	f.left--
	if f.kind != toList {
		c := &w.classes[f.class]
		return c.want(c.fields - f.left - 1), true, nil
	}
	return anything, true, nil
}

// spend accounts for the time of a key or a value of a map. After each, the decoder visits all lists so far, and all
// places with a reference to a list. A reference counts as 16 lists, as a visit to its place takes that much longer.
func (w *walker) spend() error {
	if w.work += w.lists; w.work/visits > w.limits.Values {
		return exceeded(w.at, fmt.Sprintf("entries of maps times lists and references, / %d", visits), "Values", w.limits.Values)
	}
	return nil
}

// visits is how many lists the decoder may visit for each value that Limits.Values allows, on average.
const visits = 2048

// value checks the value at w.at, or the beginning of it if it is a container.
func (w *walker) value(want want) error {
	if w.values++; w.values > w.limits.Values {
		return exceeded(w.at, "values", "Values", w.limits.Values)
	}
	at := w.at
	tag, err := w.byte()
	if err != nil {
		return err
	}
	if err := admit(at, tag, want); err != nil {
		return err
	}
	switch {
	case isText(tag):
		text, err := w.text(at, tag)
		if err == nil && want == aDecimal && !isDecimal(string(w.in(text))) {
			return fail(at, "the text of a decimal number that is none")
		}
		return err
	case isBinary(tag):
		return w.binary(at, tag)
	case isList(tag):
		return w.list(at, tag, want)
	case tag == 'M' || tag == 'H':
		return w.table(at, tag, want)
	case tag == 'C':
		return w.define(at)
	case isObject(tag):
		return w.object(at, tag)
	case tag == 0x51:
		return w.reference(at, want)
	}
	n, ok := scalar(tag)
	if !ok {
		return fail(at, "no value has the tag %#02x", tag)
	}
	return w.skip(at, n)
}

// admit returns an error if no value with this tag may stand in the place.
func admit(at int, tag byte, want want) error {
	ok := true
	switch want {
	case aList:
		ok = tag == 'N' || tag == 0x51 || isList(tag) || isBinary(tag)
	case aMap:
		ok = tag == 'N' || tag == 0x51 || tag == 'M' || tag == 'H'
	case aName:
		ok = tag == 'N' || isText(tag)
	case aDecimal:
		ok = isText(tag) && tag != 'R'
	case aDate:
		ok = tag == 'N' || tag == 0x4a || tag == 0x4b
	case aFieldName:
		ok = isText(tag)
	case aKey:
		ok = tag != 'M' && tag != 'H' && !isList(tag) && !isBinary(tag)
	case unread:
		ok = false
	}
	if !ok {
		return fail(at, "a value with the tag %#02x in the place of %s", tag, want)
	}
	return nil
}

// String names what may stand in the place.
func (w want) String() string {
	return [...]string{"a value", "a list", "a map", "the name of a constant", "a decimal number", "a date", "a key",
		"the name of a field", "a field that the Go type does not export"}[w]
}

// push begins a container.
func (w *walker) push(at int, f frame) error {
	if len(w.stack) >= w.limits.Depth {
		return exceeded(at, "levels", "Depth", w.limits.Depth)
	}
	w.refs = append(w.refs, f.kind)
	w.stack = append(w.stack, f)
	return nil
}

// list checks the beginning of a list.
func (w *walker) list(at int, tag byte, want want) (err error) {
	f := frame{kind: toList, open: tag == 0x55 || tag == 0x57}
	if tag == 0x55 || tag == 'V' || tag >= 0x70 && tag <= 0x77 {
		collection, err := w.listType()
		if err != nil {
			return err
		}
		if collection && (f.open || want == aList) {
			return fail(at, "a collection in a list without a length, or in a field that is a slice")
		}
	}
	switch {
	case tag == 'V' || tag == 0x58:
		if f.left, err = w.count("elements"); err != nil {
			return err
		}
	case !f.open:
		f.left = int(tag & 7)
	}
	if f.left > len(w.b)-w.at {
		return fail(at, "%d elements in the %d bytes that are left", f.left, len(w.b)-w.at)
	}
	if f.left > w.limits.Values-w.values {
		return exceeded(at, "values", "Values", w.limits.Values)
	}
	w.lists++
	return w.push(at, f)
}

// table checks the beginning of a map. The decoder panics at null as a key, unless the map has neither a type nor a place
// in a field of a Go map type.
func (w *walker) table(at int, tag byte, want want) (err error) {
	f := frame{kind: toMap, open: true, noNull: tag == 'M' || want == aMap}
	if tag == 'M' {
		if f.fields, err = w.mapType(want != aMap); err != nil {
			return err
		}
	}
	return w.push(at, f)
}

// reference checks a reference. A key that is a reference must lead to an object: others cannot be hashed.
func (w *walker) reference(at int, want want) error {
	i, err := w.count("containers before a reference")
	if err != nil {
		return err
	}
	known := i < len(w.refs)
	switch {
	case want == aList && known && w.refs[i] != toList:
		return fail(at, "a reference to a map or an object in the place of a list")
	case want == aKey && (!known || w.refs[i] != toObject):
		return fail(at, "a key is a reference to what cannot be a key")
	}
	w.lists += 16 // see spend
	return nil
}
