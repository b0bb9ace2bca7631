package hessian

import (
	"bytes"

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

// Exception returns the class and the message of an exception, without decoding it: the class need not be registered. The
// message is "" if it stands behind a field that Check does not let pass.
func Exception(b []byte, l Limits) (class, message string, err error) {
	w := walker{b: b, limits: l.WithDefaults()}
	if tag, err := w.byte(); err != nil || tag != 'C' {
		return "", "", fail(0, "no exception: the definition of a class is missing")
	}
	if class, b, err = Text(b[1:]); err != nil {
		return "", "", err
	}
	w.b, w.at = b, 0
	n, err := w.count("fields")
	if err != nil {
		return "", "", err
	}
	if n > w.limits.Fields {
		return "", "", exceeded(0, "fields of a class", "Fields", w.limits.Fields)
	}
	at := -1
	for i := range n {
		field, err := w.name()
		if err != nil {
			return "", "", err
		}
		if string(w.in(field)) == "detailMessage" {
			at = i
		}
	}
	if tag, err := w.byte(); err != nil || tag != 0x60 {
		return "", "", fail(w.at, "no exception: the object of the class is missing")
	}
	if at < 0 {
		return class, "", nil
	}
	if b, err = Check(b[w.at:], at, l); err != nil {
		return class, "", nil
	}
	message, _, _ = Text(b) // null is no message
	return class, message, nil
}
