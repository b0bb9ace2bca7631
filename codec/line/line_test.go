package line

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// feed hands stream to a decoder the way a loop does: in pieces of the given size, what is not consumed stays in front of the next piece.
func feed(d *Decoder, stream []byte, piece int) (lines []string, leftover int, err error) {
	var view []byte
	for len(stream) > 0 {
		n := min(piece, len(stream))
		view = append(view, stream[:n]...)
		stream = stream[n:]
		for {
			text, consumed, err := d.next(view)
			if err != nil {
				return lines, len(view), err
			}
			if consumed == 0 {
				break
			}
			lines = append(lines, string(text))
			view = view[consumed:]
		}
	}
	return lines, len(view), nil
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		max          int
		want         []string
		leftover     int
		tooLong      int // bytes seen when refused, in one view; 0 = accepted
	}{
		{name: "nothing"},
		{name: "lf", stream: "one\ntwo\n", want: []string{"one", "two"}},
		{name: "crlf", stream: "one\r\ntwo\r\n", want: []string{"one", "two"}},
		{name: "mixed", stream: "one\ntwo\r\n\n\r\n", want: []string{"one", "two", "", ""}},
		{name: "unfinished", stream: "one\ntw", want: []string{"one"}, leftover: 2},
		{name: "only a cr", stream: "\r", leftover: 1},
		{name: "one cr is the ending, others are text", stream: "a\rb\r\r\n", want: []string{"a\rb\r"}},
		{name: "any bytes", stream: "\x00\xff\x80\n", want: []string{"\x00\xff\x80"}},
		{name: "at the limit", stream: "12345678\n12345678\r\n", max: 8, want: []string{"12345678", "12345678"}},
		{name: "unfinished at the limit", stream: "12345678\r", max: 8, leftover: 9},
		{name: "over the limit", stream: "ok\n123456789\n", max: 8, want: []string{"ok"}, tooLong: 9},
		{name: "over the limit, unfinished", stream: "ok\n123456789", max: 8, want: []string{"ok"}, tooLong: 9},
		{name: "a cr that was no ending", stream: "12345678\rx", max: 8, tooLong: 10},
		{name: "default limit", stream: strings.Repeat("x", DefaultMax) + "\n", want: []string{strings.Repeat("x", DefaultMax)}},
		{name: "over the default limit", stream: strings.Repeat("x", DefaultMax+1) + "\n", tooLong: DefaultMax + 1},
	} {
		for _, piece := range []int{1, 2, 3, 7, max(1, len(c.stream))} {
			lines, leftover, err := feed(Codec(c.max), []byte(c.stream), piece)
			if !slices.Equal(lines, c.want) {
				t.Errorf("%s in pieces of %d: lines %q, want %q", c.name, piece, lines, c.want)
			}
			if c.tooLong == 0 {
				if err != nil || leftover != c.leftover {
					t.Errorf("%s in pieces of %d: leftover %d, error %v, want %d", c.name, piece, leftover, err, c.leftover)
				}
				continue
			}
			var tooLong *TooLongError
			if !errors.As(err, &tooLong) || tooLong.Seen > c.tooLong {
				t.Errorf("%s in pieces of %d: error %v, want a *TooLongError with at most %d bytes seen", c.name, piece, err, c.tooLong)
			}
		}
	}
}

// TestTooLongIsRefusedEarly shows that the decoder holds no more than the limit and an ending, however long the line would be.
func TestTooLongIsRefusedEarly(t *testing.T) {
	_, held, err := feed(Codec(8), bytes.Repeat([]byte("x"), 1000), 1)
	if err == nil || held != 9 {
		t.Fatalf("held %d bytes, error %v; want refusal at 9", held, err)
	}
	want := "line: a line of at least 9 bytes exceeds the limit of 8"
	if err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// TestDripIsLinear counts the bytes that are searched while a line arrives byte by byte: each one once.
func TestDripIsLinear(t *testing.T) {
	d := Codec(1 << 16)
	stream := append(bytes.Repeat([]byte("x"), 1<<16), '\n')
	searched := 0
	for end := 1; end <= len(stream); end++ {
		searched += end - d.scanned
		if _, consumed, err := d.next(stream[:end]); err != nil || (consumed != 0) != (end == len(stream)) {
			t.Fatalf("after %d bytes: consumed %d, error %v", end, consumed, err)
		}
	}
	if searched != len(stream) {
		t.Errorf("searched %d bytes for a line of %d", searched, len(stream))
	}
}

func TestDetachCopies(t *testing.T) {
	scratch := []byte("hello")
	kept, ok := (&Line{text: scratch}).Detach().(*Line)
	if !ok {
		t.Fatal("Detach did not return a *Line")
	}
	copy(scratch, "XXXXX")
	if string(kept.Text()) != "hello" {
		t.Errorf("detached text %q changed with the scratch buffer", kept.Text())
	}
}

// FuzzLines compares the decoder, fed in any pieces, with a plain split of the whole stream.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "a\r\nb\n", "\r\r\n", strings.Repeat("y", 300) + "\n", "12345678\r\n"} {
		f.Add([]byte(seed), 8, 1)
		f.Add([]byte(seed), 0, 5)
	}
	f.Fuzz(func(t *testing.T, stream []byte, limit, piece int) {
		limit = max(1, limit%512)
		piece = max(1, piece%64)
		lines, _, err := feed(Codec(limit), bytes.Clone(stream), piece)
		want, refused := split(stream, limit)
		if !slices.Equal(lines, want) || (err != nil) != refused {
			t.Fatalf("lines %q, error %v; want %q, refused %v", lines, err, want, refused)
		}
		if tooLong := (*TooLongError)(nil); err != nil && (!errors.As(err, &tooLong) || tooLong.Seen <= limit) {
			t.Fatalf("error %v, want a *TooLongError beyond %d", err, limit)
		}
	})
}

// split is the reference: the lines before the first one that is too long.
func split(stream []byte, limit int) (lines []string, refused bool) {
	parts := bytes.Split(stream, []byte("\n"))
	for i, p := range parts {
		p = bytes.TrimSuffix(p, []byte("\r"))
		if len(p) > limit {
			return lines, true
		}
		if i < len(parts)-1 {
			lines = append(lines, string(p))
		}
	}
	return lines, false
}

func BenchmarkDecode(b *testing.B) {
	view := []byte("a line of an ordinary length, as people type it\r\n")
	d := Codec(256)
	b.ReportAllocs()
	b.SetBytes(int64(len(view)))
	for b.Loop() {
		if _, consumed, err := d.next(view); consumed != len(view) || err != nil {
			b.Fatal(consumed, err)
		}
	}
}
