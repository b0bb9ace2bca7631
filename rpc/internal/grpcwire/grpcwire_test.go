package grpcwire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestTimeouts: what is read, what is refused, and that a time that was written is read as at least as much, and hardly more.
func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1n": 1, "20u": 20 * time.Microsecond, "100m": 100 * time.Millisecond, "3S": 3 * time.Second, "2M": 2 * time.Minute, "99999999H": math.MaxInt64, "0S": 0, "00000010S": 10 * time.Second,
	} {
		if got, err := ParseTimeout(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "S", "1s", "-1S", "1.5S", "123456789S", " 1S", "1S "} {
		if got, err := ParseTimeout(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, d := range []time.Duration{-1, 0, 1, 99_999_999, 100_000_000, 123_456_789_123, time.Hour + 1, 40_000 * time.Hour, math.MaxInt64} {
		text := string(AppendTimeout(nil, d))
		got, err := ParseTimeout(text)
		if err != nil || got < d || float64(got) > 1.0001*float64(max(d, 1)) {
			t.Errorf("%v is %s, which is %v, %v", d, text, got, err)
		}
	}
}

// TestMessageText: the text of a status, there and back.
func TestMessageText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain text": "plain text", "100%": "100%25", "ü\n": "%C3%BC%0A", "\xff": "%EF%BF%BD", "~ \x7f": "~ %7F", " a b ": "%20a b%20", " ": "%20",
	} {
		if got := EscapeMessage(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if got := UnescapeMessage(want); got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q is %q, want %q", want, got, text)
		}
	}
	for text, want := range map[string]string{"%": "%", "%2": "%2", "%zz": "%zz", "a%c3%bc": "aü", "%FF": "\uFFFD"} {
		if got := UnescapeMessage(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"AP8", "AP8="} {
		if got, err := DecodeBinary(text); err != nil || got != "\x00\xff" {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	if _, err := DecodeBinary("!"); err == nil {
		t.Error("! is base64")
	}
}

// TestStatus: details, there and back.
func TestStatus(t *testing.T) {
	a, err := Pack(wrapperspb.String("more"))
	if err != nil {
		t.Fatal(err)
	}
	s := Status{Code: 5, Message: "no", Details: []Any{a, {"x", nil}}}
	got, err := ParseStatus(s.Append(nil))
	if got.Details[1].Value = nil; err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v, want %+v", got, err, s)
	}
	for _, bad := range []string{"\x08", "\xff", "\x12\x05ab", "\x1a\x02\x0a\x05"} {
		if _, err := ParseStatus([]byte(bad)); err == nil {
			t.Errorf("%x is a status", bad)
		}
	}
}

// stream returns messages as they are on the wire.
func stream(msgs ...string) []byte {
	var b []byte
	for _, m := range msgs {
		from := len(b)
		b = append(AppendPrefix(b), m...)
		Finish(b, from, false)
	}
	return b
}

// TestReader: however the bytes come, the messages are the same, and so is what Split makes of the first.
func TestReader(t *testing.T) {
	msgs := []string{"a", "", strings.Repeat("b", 5000), strings.Repeat("c", 200_000), "d", strings.Repeat("e", firstBuffer-PrefixLen), "f"}
	wire := stream(msgs...)
	for name, from := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
	} {
		var m Reader
		m.Init(from(bytes.NewReader(wire)), 200_000)
		for i, want := range msgs {
			if got, compressed, err := m.Next(); err != nil || compressed || string(got) != want {
				t.Fatalf("%s: message %d has %d bytes, %v", name, i, len(got), err)
			}
		}
		if _, _, err := m.Next(); err != io.EOF {
			t.Errorf("%s: %v behind the last message", name, err)
		}
	}
	msg, _, rest, err := Split(wire, 10)
	if err != nil || string(msg) != "a" || !bytes.Equal(rest, stream(msgs[1:]...)) {
		t.Errorf("%q, %d bytes, %v", msg, len(rest), err)
	}
}

// TestBadMessages: what is no message, by Reader and by Split.
func TestBadMessages(t *testing.T) {
	for text, want := range map[string]error{
		"": io.EOF, "\x00": io.ErrUnexpectedEOF, "\x00\x00\x00\x00\x02a": io.ErrUnexpectedEOF, "\x00\x00\x00\x00\x0b": &TooLargeError{11, 10}, "\x00\xff\xff\xff\xff": &TooLargeError{math.MaxUint32, 10},
	} {
		var m Reader
		m.Init(strings.NewReader(text), 10)
		_, _, err := m.Next()
		_, _, _, split := Split([]byte(text), 10)
		for _, err := range []error{err, split} {
			if !errors.Is(err, want) && !reflect.DeepEqual(err, want) {
				t.Errorf("%q: %v, want %v", text, err, want)
			}
		}
	}
	var m Reader
	m.Init(strings.NewReader("\x02\x00\x00\x00\x00"), 10)
	if _, _, err := m.Next(); err == nil || !strings.Contains(err.Error(), "flags 0x2") {
		t.Errorf("%v", err)
	}
	m.Init(iotest.ErrReader(io.ErrClosedPipe), 10)
	if _, _, err := m.Next(); err != io.ErrClosedPipe {
		t.Errorf("%v", err)
	}
}

// TestLengthCostsNothing: a message that says that it is long takes memory only as its bytes come.
func TestLengthCostsNothing(t *testing.T) {
	var m Reader
	m.Init(strings.NewReader("\x00\x3f\xff\xff\xff0123456789"), math.MaxInt32)
	if _, _, err := m.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if cap(m.buf) > 2*step {
		t.Errorf("%d bytes of memory for 15", cap(m.buf))
	}
}

// TestCompress: there and back, up to the limit and not beyond.
func TestCompress(t *testing.T) {
	text := strings.Repeat("x", 100_000)
	z, err := Compress([]byte("front"), []byte(text))
	if err != nil || !bytes.HasPrefix(z, []byte("front")) || len(z) > 1000 {
		t.Fatalf("%d bytes, %v", len(z), err)
	}
	for range 2 { // with a new decoder, and with one that was used
		if got, err := Decompress(z[5:], len(text)); err != nil || string(got) != text {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err := Decompress(z[5:], len(text)-1); !reflect.DeepEqual(err, &TooLargeError{len(text), len(text) - 1}) {
			t.Errorf("%v", err)
		}
		if _, err := Decompress([]byte("abc"), 10); err == nil {
			t.Error("abc is gzip")
		}
		if _, err := Decompress(z[5:len(z)-3], len(text)); err == nil {
			t.Error("a part is the whole")
		}
	}
}

// FuzzReader: no bytes break the decoder of messages; what it returns is within the limit and as the bytes say.
func FuzzReader(f *testing.F) {
	f.Add(stream("a", "bc"), 3)
	f.Add([]byte("\x01\x00\x00\x00\x01"), 1)
	f.Fuzz(func(t *testing.T, b []byte, chunk int) {
		const limit = 1 << 10
		var m Reader
		m.Init(&chunks{b, max(chunk, 1)}, limit)
		var again []byte
		rest := b
		for {
			msg, compressed, err := m.Next()
			first, flagged, behind, split := Split(rest, limit)
			if (err == nil) != (split == nil) || !bytes.Equal(msg, first) || compressed != flagged {
				t.Fatalf("Next: %x %v, Split: %x %v", msg, err, first, split)
			}
			if err != nil {
				break
			}
			rest = behind
			from := len(again)
			again = append(AppendPrefix(again), msg...)
			Finish(again, from, compressed)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %x", b, again)
		}
	})
}

// chunks reads n bytes at a time.
type chunks struct {
	b []byte
	n int
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.b)
	c.b = c.b[n:]
	return n, nil
}

// FuzzStatus: no bytes break the decoders of protobuf messages, and what was read is written and read as the same.
func FuzzStatus(f *testing.F) {
	f.Add((&Status{Code: 5, Message: "no", Details: []Any{{"x", []byte("y")}}}).Append(nil))
	f.Add(AppendQuestion(nil, FileBySymbol, "a.B"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseReflectionRequest(b)
		_, _ = ParseReflectionResponse(b)
		_, _ = ParseHealthRequest(b)
		s, err := ParseStatus(b)
		if err != nil {
			return
		}
		again, err := ParseStatus(s.Append(nil))
		if err != nil || again.Code != s.Code || again.Message != s.Message || len(again.Details) != len(s.Details) {
			t.Fatalf("%+v was written and read as %+v, %v", s, again, err)
		}
	})
}

// FuzzText: what travels as text comes back.
func FuzzText(f *testing.F) {
	f.Add("100%", int64(time.Second))
	f.Fuzz(func(t *testing.T, text string, d int64) {
		if got := UnescapeMessage(EscapeMessage(text)); got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Fatalf("%q came back as %q", text, got)
		}
		if got, err := DecodeBinary(EncodeBinary(text)); err != nil || got != text {
			t.Fatalf("%q came back as %q, %v", text, got, err)
		}
		if got, err := ParseTimeout(string(AppendTimeout(nil, time.Duration(d)))); err != nil || got < time.Duration(d) {
			t.Fatalf("%v came back as %v, %v", time.Duration(d), got, err)
		}
		_, _ = ParseTimeout(text)
		UnescapeMessage(text)
	})
}
