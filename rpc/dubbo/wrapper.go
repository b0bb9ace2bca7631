package dubbo

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// serialization is the name of Hessian 2.0 in a wrapper and in the content type of a call.
const serialization = "hessian2"

// A wrapper is the one message of a call without a .proto file: TripleRequestWrapper of Dubbo's documents, and with one
// value TripleResponseWrapper, whose fields have the same numbers.
type wrapper struct {
	serialization string
	values        [][]byte
	types         []string // Java's names of the values' types
}

// The fields of a wrapper.
const (
	fieldSerialization = 1
	fieldValue         = 2
	fieldType          = 3
)

// append appends the message to b.
func (w wrapper) append(b []byte) []byte {
	b = protowire.AppendTag(b, fieldSerialization, protowire.BytesType)
	b = protowire.AppendString(b, w.serialization)
	for _, v := range w.values {
		b = protowire.AppendTag(b, fieldValue, protowire.BytesType)
		b = protowire.AppendBytes(b, v)
	}
	for _, t := range w.types {
		b = protowire.AppendTag(b, fieldType, protowire.BytesType)
		b = protowire.AppendString(b, t)
	}
	return b
}

// maxValues bounds the arguments of a call. Java allows 255.
const maxValues = 255

// parseWrapper reads a message; its values are parts of b. Fields that it does not know are passed over.
func parseWrapper(b []byte) (w wrapper, err error) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return w, fmt.Errorf("no wrapper of Triple: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if kind != protowire.BytesType || field > fieldType {
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return w, fmt.Errorf("no wrapper of Triple: %w", protowire.ParseError(n))
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return w, fmt.Errorf("no wrapper of Triple: %w", protowire.ParseError(n))
		}
		b = b[n:]
		switch field {
		case fieldSerialization:
			w.serialization = string(v)
		case fieldValue:
			if len(w.values) == maxValues {
				return w, fmt.Errorf("more than %d values", maxValues)
			}
			w.values = append(w.values, v)
		} // the types of values are in the values, too
	}
	if w.serialization != serialization {
		return w, fmt.Errorf("a wrapper with %q, want %s", w.serialization, serialization)
	}
	return w, nil
}

var errNoValue = errors.New("a response without a value")
