package hessian

import (
	"bytes"
	"slices"

	hessian2 "github.com/apache/dubbo-go-hessian2"
)

// Split walks all values of b as Check does, and returns the bytes of each. The values share their classes and references,
// so one decoder must read them in order. More than most values are an error.
func Split(b []byte, most int, l Limits) ([][]byte, error) {
	w := walkers.Get().(*walker)
	defer w.release()
	w.b, w.limits = b, l.WithDefaults()
	var parts [][]byte
	for w.at < len(b) {
		if len(parts) == most {
			return nil, fail(w.at, "more than %d values", most)
		}
		from := w.at
		if err := w.walk(); err != nil {
			return nil, err
		}
		parts = append(parts, b[from:w.at])
	}
	return parts, nil
}

// Text takes a string, and returns it with the bytes behind it.
func Text(b []byte) (text string, rest []byte, err error) {
	w := walker{b: b}
	tag, err := w.byte()
	if err != nil {
		return "", nil, err
	}
	if !isText(tag) {
		return "", nil, fail(0, "the tag %#02x in the place of a string", tag)
	}
	in, err := w.text(0, tag)
	if err != nil {
		return "", nil, err
	}
	if raw := w.in(in); tag != 'R' && bytes.IndexByte(raw, 0xed) < 0 { // one piece without surrogates
		return string(raw), b[w.at:], nil
	}
	v, err := hessian2.NewDecoder(b[:w.at]).Decode()
	text, _ = v.(string)
	return text, b[w.at:], err
}

// Strings calls yield for the entries of a map that Check or Split has let pass, if key and value are strings.
func Strings(b []byte, l Limits, yield func(key, value string)) error {
	w := walker{b: b, limits: l.WithDefaults()}
	tag, err := w.byte()
	switch {
	case err != nil:
		return err
	case tag == 'M':
		if err = w.walk(); err != nil { // the name of its type, or the number of one
			return err
		}
	case tag != 'H':
		return fail(0, "the tag %#02x in the place of a map", tag)
	}
	for b = b[w.at:]; len(b) > 0 && b[0] != 'Z'; {
		key, value := b, []byte(nil)
		if value, err = Check(key, 1, l); err != nil {
			return err
		}
		if b, err = Check(value, 1, l); err != nil {
			return err
		}
		k, _, err := Text(key)
		if err != nil {
			continue
		}
		if v, _, err := Text(value); err == nil {
			yield(k, v)
		}
	}
	return nil
}

// Thrown is what an exception says.
type Thrown struct {
	Class, Message string
	Generic        bool // Class and Message are those of the exception that a GenericException stands for
}

// generics are the classes of an exception that answers a generic call. Their fields have the class and the message of what was thrown.
var generics = []string{"com.alibaba.dubbo.rpc.service.GenericException", "org.apache.dubbo.rpc.service.GenericException"}

// Exception returns what an exception says and the bytes behind it, without decoding it: the class need not be registered. An object with a value that
// the limits do not let pass has no message, and there are no bytes behind it.
func Exception(b []byte, l Limits) (t Thrown, rest []byte, err error) {
	w := walker{b: b, limits: l.WithDefaults(), skips: true}
	if tag, err := w.byte(); err != nil || tag != 'C' {
		return t, nil, fail(0, "no exception: the definition of a class is missing")
	}
	if t.Class, rest, err = Text(b[1:]); err != nil {
		return t, nil, err
	}
	w.at = len(b) - len(rest)
	n, err := w.count("fields")
	if err != nil {
		return t, nil, err
	}
	if n > w.limits.Fields {
		return t, nil, exceeded(0, "fields of a class", "Fields", w.limits.Fields)
	}
	names := make([]string, n)
	for i := range names {
		field, err := w.name()
		if err != nil {
			return t, nil, err
		}
		names[i] = string(w.in(field))
	}
	if tag, err := w.byte(); err != nil || tag != 0x60 {
		return t, nil, fail(w.at, "no exception: the object of the class is missing")
	}
	w.classes, w.refs = append(w.classes, class{fields: n}), append(w.refs, toObject)
	texts := map[string]string{}
	for _, name := range names {
		from := w.at
		if err := w.walk(); err != nil {
			return t, nil, nil //nolint:nilerr // the class is known
		}
		if text, _, err := Text(b[from:w.at]); err == nil { // null is no text
			texts[name] = text
		}
	}
	t.Message = texts["detailMessage"]
	if thrown := texts["exceptionClass"]; thrown != "" && slices.Contains(generics, t.Class) {
		t = Thrown{Class: thrown, Message: texts["exceptionMessage"], Generic: true}
	}
	return t, b[w.at:], nil
}
