package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Codec is the encoding of a body, by its number on the wire.
type Codec uint8

// The codecs: bytes as they are, encoding/json with protobuf's own JSON for messages, and protobuf.
const (
	Raw Codec = iota
	JSON
	Protobuf
	Codecs
)

// Append appends v to dst. Raw takes []byte and *[]byte. A nil v is null in JSON and nothing in the others.
func (c Codec) Append(dst []byte, v any) ([]byte, error) {
	if v == nil && c != JSON {
		return dst, nil
	}
	switch c {
	case Raw:
		switch b := v.(type) {
		case []byte:
			return append(dst, b...), nil
		case *[]byte:
			if b == nil {
				return dst, nil
			}
			return append(dst, *b...), nil
		}
		return dst, fmt.Errorf("rpc: a raw body is a []byte, not a %T", v)
	case JSON:
		if m, ok := v.(proto.Message); ok {
			return appendProtoJSON(dst, m)
		}
		return appendJSON(dst, v)
	case Protobuf:
		m, ok := v.(proto.Message)
		if !ok {
			return dst, fmt.Errorf("rpc: a protobuf body is a proto.Message, not a %T", v)
		}
		out, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
		if err != nil {
			return dst, fmt.Errorf("rpc: a %T as protobuf: %w", v, err)
		}
		return out, nil
	}
	return dst, fmt.Errorf("rpc: codec %d is unknown", c)
}

// Decode reads a body into v, a pointer. Raw takes *[]byte, which then borrows from b; the others copy.
func (c Codec) Decode(b []byte, v any) error {
	switch c {
	case Raw:
		p, ok := v.(*[]byte)
		if !ok {
			return fmt.Errorf("rpc: a raw body is a []byte, not a %T", v)
		}
		*p = b
		return nil
	case JSON:
		if err := decodeJSON(b, v); err != nil {
			return fmt.Errorf("rpc: a body that is no JSON for %T: %w", v, err)
		}
		return nil
	case Protobuf:
		m, ok := v.(proto.Message)
		if !ok {
			return fmt.Errorf("rpc: a protobuf body is a proto.Message, not a %T", v)
		}
		if err := proto.Unmarshal(b, m); err != nil {
			return fmt.Errorf("rpc: a body that is no protobuf for %T: %w", v, err)
		}
		return nil
	}
	return fmt.Errorf("rpc: codec %d is unknown", c)
}

// DecodeResponse is Decode for what a method has returned. A null is an error for types that have no such value. With
// strict, fields that v does not have are errors, too; in protobuf bodies only those of the top message are looked at.
func (c Codec) DecodeResponse(b []byte, v any, strict bool) error {
	if err := c.Decode(b, v); err != nil || c == Raw {
		return err
	}
	m, isMessage := v.(proto.Message)
	switch {
	case c == JSON && string(b) == "null" && !takesNull(v):
		return fmt.Errorf("rpc: the method returned null, want a %T", v)
	case !strict:
		return nil
	case c == Protobuf:
		if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
			n, _, _ := protowire.ConsumeTag(unknown)
			return fmt.Errorf("rpc: the response has a field %d, which %s does not have", n, TypeName(v))
		}
		return nil
	case isMessage:
		if err := protojson.Unmarshal(b, m); err != nil {
			return fmt.Errorf("rpc: the response is no %s: %w", TypeName(v), err)
		}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("rpc: the response is no %s: %w", TypeName(v), err)
	}
	return nil
}

// TypeName returns the name of the type that v points to: the full name of a message, else the type's name in Go.
func TypeName(v any) string {
	if m, ok := v.(proto.Message); ok {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return reflect.TypeOf(v).Elem().String()
}

// takesNull reports whether null is a value of the type that v points to.
func takesNull(v any) bool {
	switch v.(type) {
	case proto.Message:
		return true // some messages do; protojson knows which
	case json.Unmarshaler:
		return true
	}
	switch reflect.TypeOf(v).Elem().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return true
	}
	return false
}

func appendProtoJSON(dst []byte, m proto.Message) ([]byte, error) {
	out, err := protojson.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return dst, fmt.Errorf("rpc: a %T as JSON: %w", m, err)
	}
	return out, nil
}

// decodeJSON ignores fields that v does not have, so that versions of a service can differ.
func decodeJSON(b []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m)
	}
	return json.Unmarshal(b, v)
}

// jsonEncoder appends JSON to a slice. json.Marshal would make a slice that is copied and dropped.
type jsonEncoder struct {
	dst []byte
	enc *json.Encoder
}

// Write implements io.Writer.
func (e *jsonEncoder) Write(p []byte) (int, error) {
	e.dst = append(e.dst, p...)
	return len(p), nil
}

var jsonEncoders = sync.Pool{New: func() any {
	e := new(jsonEncoder)
	e.enc = json.NewEncoder(e)
	e.enc.SetEscapeHTML(false)
	return e
}}

func appendJSON(dst []byte, v any) ([]byte, error) {
	e := jsonEncoders.Get().(*jsonEncoder)
	e.dst = dst
	err := e.enc.Encode(v)
	out := e.dst
	e.dst = nil
	jsonEncoders.Put(e) // not after a panic of the value's own marshaller
	if err != nil {
		return dst, fmt.Errorf("rpc: a %T as JSON: %w", v, err)
	}
	return out[:len(out)-1], nil // without the encoder's newline
}
