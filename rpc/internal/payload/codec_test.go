package payload

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
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
		{Raw, raw, &back, func() bool { return string(back) == "ab" }, "ab"},
		{Raw, &raw, &back, func() bool { return string(back) == "ab" }, "ab"},
		jsonCase(), protoCase(),
	} {
		b, err := c.codec.Append([]byte("x"), c.in)
		if err != nil || string(b) != "x"+c.encoding {
			t.Errorf("%v of %v: %q, %v; want x%q", c.codec, c.in, b, err, c.encoding)
		}
		if err := c.codec.Decode(b[1:], c.out); err != nil || !c.same() {
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
	return codecCase{JSON, greeting{"<Ann>", 2}, &g, func() bool { return g == greeting{"<Ann>", 2} }, `{"name":"<Ann>","times":2}`}
}

func protoCase() codecCase {
	var s wrapperspb.StringValue
	return codecCase{Protobuf, wrapperspb.String("hi"), &s, func() bool { return s.Value == "hi" }, "\x0a\x02hi"}
}

func TestCodecErrors(t *testing.T) {
	var g greeting
	for _, c := range []struct {
		what string
		err  error
	}{
		{"raw of a struct", fails(Raw.Append(nil, g))},
		{"raw into a struct", Raw.Decode(nil, &g)},
		{"JSON of a function", fails(JSON.Append(nil, func() {}))},
		{"JSON of nothing", JSON.Decode(nil, &g)},
		{"JSON with a tail", JSON.Decode([]byte(`{}{}`), &g)},
		{"JSON of another type", JSON.Decode([]byte(`[]`), &g)},
		{"protobuf of a struct", fails(Protobuf.Append(nil, g))},
		{"protobuf into a struct", Protobuf.Decode(nil, &g)},
		{"protobuf that is none", Protobuf.Decode([]byte{0xff}, new(wrapperspb.StringValue))},
		{"protobuf of bad UTF-8", fails(Protobuf.Append(nil, wrapperspb.String("\xff")))},
		{"codec 3", fails(Codec(3).Append(nil, g))},
		{"into codec 3", Codec(3).Decode(nil, &g)},
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
		if _, err := JSON.Append(nil, struct {
			A string
			F func()
		}{A: "left"}); err == nil {
			t.Fatal("a function has JSON")
		}
		if b, err := JSON.Append(nil, 1); err != nil || string(b) != "1" {
			t.Fatalf("%q, %v", b, err)
		}
	}
}

func TestProtobufAppends(t *testing.T) {
	b, err := Protobuf.Append(make([]byte, 0, 64), wrapperspb.Bytes([]byte{1}))
	if err != nil || !bytes.Equal(b, []byte{0x0a, 1, 1}) || cap(b) != 64 {
		t.Errorf("%X with room for %d, %v", b, cap(b), err)
	}
}

// TestResponseOfAnotherType: what is provably no value of the type is an error that names it. A field that the type does
// not have is an error with strict only.
func TestResponseOfAnotherType(t *testing.T) {
	encoded := func(m proto.Message) string {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type list []string
	for _, x := range []struct {
		codec  Codec
		body   string
		into   any
		lax    string // "" = no error
		strict string
	}{
		{JSON, `null`, new(greeting), "the method returned null, want a *payload.greeting", "null"},
		{JSON, `null`, new(int), "want a *int", "null"},
		{JSON, `null`, new(*greeting), "", ""},
		{JSON, `null`, new(list), "", ""},
		{JSON, `null`, new(map[string]int), "", ""},
		{JSON, `null`, new(any), "", ""},
		{JSON, `null`, new(wrapperspb.StringValue), "StringValue", "StringValue"},
		{JSON, `[1]`, new(greeting), "*payload.greeting: json: cannot unmarshal array", "array"},
		{JSON, `{"name":"Ann"}`, new(greeting), "", ""},
		{JSON, `{"title":"Dr"}`, new(greeting), "", `no payload.greeting: json: unknown field "title"`},
		{Protobuf, encoded(wrapperspb.String("Ann")), new(wrapperspb.StringValue), "", ""},
		{Protobuf, encoded(wrapperspb.String("Ann")), new(wrapperspb.Int64Value), "", "a field 1, which google.protobuf.Int64Value does not have"},
		{Raw, "null", new([]byte), "", ""},
	} {
		for strict, want := range map[bool]string{false: x.lax, true: x.strict} {
			err := x.codec.DecodeResponse([]byte(x.body), x.into, strict)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v %q as %T, strict %v: %v, want %q", x.codec, x.body, x.into, strict, err, want)
			}
		}
	}
}
