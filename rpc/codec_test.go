package rpc

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

type greeting struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

func TestCodecs(t *testing.T) {
	raw, back := []byte("ab"), []byte(nil)
	for _, c := range []struct {
		codec    Codec
		in, out  any
		same     func() bool
		encoding string
	}{
		{CodecRaw, raw, &back, func() bool { return string(back) == "ab" }, "ab"},
		{CodecRaw, &raw, &back, func() bool { return string(back) == "ab" }, "ab"},
		jsonCase(), protoCase(),
	} {
		b, err := c.codec.append([]byte("x"), c.in)
		if err != nil || string(b) != "x"+c.encoding {
			t.Errorf("%v of %v: %q, %v; want x%q", c.codec, c.in, b, err, c.encoding)
		}
		if err := c.codec.decode(b[1:], c.out); err != nil || !c.same() {
			t.Errorf("%v of %q: %v, %v", c.codec, b, c.out, err)
		}
	}
}

type codecCase = struct {
	codec    Codec
	in, out  any
	same     func() bool
	encoding string
}

func jsonCase() codecCase {
	var g greeting
	return codecCase{CodecJSON, greeting{"<Ann>", 2}, &g, func() bool { return g == greeting{"<Ann>", 2} }, `{"name":"<Ann>","times":2}`}
}

func protoCase() codecCase {
	var s wrapperspb.StringValue
	return codecCase{CodecProtobuf, wrapperspb.String("hi"), &s, func() bool { return s.Value == "hi" }, "\x0a\x02hi"}
}

func TestCodecErrors(t *testing.T) {
	var g greeting
	for _, c := range []struct {
		what string
		err  error
	}{
		{"raw of a struct", fails(CodecRaw.append(nil, g))},
		{"raw into a struct", CodecRaw.decode(nil, &g)},
		{"JSON of a function", fails(CodecJSON.append(nil, func() {}))},
		{"JSON of nothing", CodecJSON.decode(nil, &g)},
		{"JSON with a tail", CodecJSON.decode([]byte(`{}{}`), &g)},
		{"JSON of another type", CodecJSON.decode([]byte(`[]`), &g)},
		{"protobuf of a struct", fails(CodecProtobuf.append(nil, g))},
		{"protobuf into a struct", CodecProtobuf.decode(nil, &g)},
		{"protobuf that is none", CodecProtobuf.decode([]byte{0xff}, new(wrapperspb.StringValue))},
		{"protobuf of bad UTF-8", fails(CodecProtobuf.append(nil, wrapperspb.String("\xff")))},
		{"codec 3", fails(Codec(3).append(nil, g))},
		{"into codec 3", Codec(3).decode(nil, &g)},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), "rpc: ") {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
}

func fails(b []byte, err error) error {
	if err != nil && len(b) > 0 {
		panic("bytes with an error")
	}
	return err
}

// TestFailedEncoderIsUsable: what a failed value has left behind is in no later body.
func TestFailedEncoderIsUsable(t *testing.T) {
	for range 100 {
		if _, err := CodecJSON.append(nil, struct {
			A string
			F func()
		}{A: "left"}); err == nil {
			t.Fatal("a function has JSON")
		}
		if b, err := CodecJSON.append(nil, 1); err != nil || string(b) != "1" {
			t.Fatalf("%q, %v", b, err)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for _, c := range []Codec{CodecRaw, CodecJSON, CodecProtobuf} {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v is parsed as %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("xml"); err == nil || Codec(7).String() != "codec 7" {
		t.Error(err, Codec(7))
	}
}

func TestProtobufAppends(t *testing.T) {
	b, err := CodecProtobuf.append(make([]byte, 0, 64), wrapperspb.Bytes([]byte{1}))
	if err != nil || !bytes.Equal(b, []byte{0x0a, 1, 1}) || cap(b) != 64 {
		t.Errorf("%X with room for %d, %v", b, cap(b), err)
	}
}
