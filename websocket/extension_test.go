package websocket

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseExtensions(t *testing.T) {
	for _, tt := range []struct {
		fields []string
		want   string // "!" = malformed
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"a"}, "a"},
		{[]string{" a ; b ; c = 1 ,d\t"}, "a;b;c=1 d"},
		{[]string{"a", "b;x"}, "a b;x"},
		{[]string{`a; x="8"`}, "a;x=8"},
		{[]string{`a; x="a\bc"`}, "a;x=abc"},
		{[]string{"a,,b,"}, "a b"},
		{[]string{"x-webkit-deflate-frame, permessage-deflate; client_max_window_bits"}, "x-webkit-deflate-frame permessage-deflate;client_max_window_bits"},
		{[]string{"a b"}, "!"},
		{[]string{"a;"}, "!"},
		{[]string{"a;;b"}, "!"},
		{[]string{";a"}, "!"},
		{[]string{"a; =1"}, "!"},
		{[]string{"a; b="}, "!"},
		{[]string{`a; b=""`}, "!"},
		{[]string{`a; b="1`}, "!"},
		{[]string{`a; b="1\`}, "!"},
		{[]string{`a; b="1 2"`}, "!"},
		{[]string{"a; b=(1)"}, "!"},
		{[]string{"é"}, "!"},
		{[]string{"a", "b;"}, "!"},
	} {
		list, err := parseExtensions(tt.fields)
		got := make([]string, 0, len(list))
		for _, e := range list {
			s := e.name
			for _, p := range e.params {
				s += ";" + p.name
				if p.valued {
					s += "=" + p.value
				}
			}
			got = append(got, s)
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = "!"
		}
		if text != tt.want {
			t.Errorf("%q: %q, want %q", tt.fields, text, tt.want)
		}
	}
}

func newCompression(t testing.TB, o CompressionOptions) *Compression {
	t.Helper()
	z, err := NewCompression(o)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// RFC 7692 section 7.1: what a server answers to each offer, which windows it
// will use, and whether it keeps them.
func TestNegotiationOfServer(t *testing.T) {
	const pd = "permessage-deflate"
	off := CompressionOptions{}
	keep := CompressionOptions{ContextTakeover: true, WindowBits: 15}
	small := CompressionOptions{ContextTakeover: true, WindowBits: 11, PeerWindowBits: 10}
	noRoom := CompressionOptions{ContextTakeover: true, Memory: 1}
	const none = "; server_no_context_takeover; client_no_context_takeover"
	for _, tt := range []struct {
		o                   CompressionOptions
		offer, answer, then string
	}{
		{off, "", "", ""},
		{off, "other", "", ""},
		{off, pd, pd + none, "out 15 in 15"},
		{off, pd + "; client_max_window_bits", pd + none, "out 15 in 15"},
		{off, pd + "; server_max_window_bits=9", pd + none + "; server_max_window_bits=9", "out 9 in 15"},
		{off, pd + "; server_max_window_bits=8", pd + none + "; server_max_window_bits=8", "out 8 in 15"},
		{off, pd + "; client_max_window_bits=12", pd + none + "; client_max_window_bits=12", "out 15 in 12"},
		{keep, pd, pd, "out 15 kept in 15 kept"},
		{keep, pd + "; server_no_context_takeover", pd + "; server_no_context_takeover", "out 15 in 15 kept"},
		{keep, pd + "; client_no_context_takeover", pd + "; client_no_context_takeover", "out 15 kept in 15"},
		{keep, pd + "; client_no_context_takeover; server_no_context_takeover; server_max_window_bits=10; client_max_window_bits=15",
			pd + none + "; server_max_window_bits=10", "out 10 in 15"},
		{small, pd, pd, "out 11 kept in 15 kept"},
		{small, pd + "; client_max_window_bits", pd + "; client_max_window_bits=10", "out 11 kept in 10 kept"},
		{small, pd + "; client_max_window_bits=9", pd + "; client_max_window_bits=9", "out 11 kept in 9 kept"},
		{small, pd + "; server_max_window_bits=15", pd + "; server_max_window_bits=11", "out 11 kept in 15 kept"},
		{noRoom, pd, pd + none, "out 12 in 15"},
		// Offers that must be declined, alone and before one that is accepted.
		{off, pd + "; unknown", "", ""},
		{off, pd + "; server_max_window_bits", "", ""},
		{off, pd + "; server_max_window_bits=7", "", ""},
		{off, pd + "; server_max_window_bits=16", "", ""},
		{off, pd + "; server_max_window_bits=08", "", ""},
		{off, pd + "; server_max_window_bits=+9", "", ""},
		{off, pd + "; client_max_window_bits=16", "", ""},
		{off, pd + "; client_max_window_bits=0", "", ""},
		{off, pd + "; server_no_context_takeover=1", "", ""},
		{off, pd + "; client_no_context_takeover=true", "", ""},
		{off, pd + "; server_no_context_takeover; server_no_context_takeover", "", ""},
		{off, pd + "; client_no_context_takeover; client_no_context_takeover", "", ""},
		{off, pd + "; client_max_window_bits; client_max_window_bits=9", "", ""},
		{off, pd + "; server_max_window_bits=9; server_max_window_bits=9", "", ""},
		{off, pd + "; server_max_window_bits=7, " + pd + "; server_max_window_bits=10, " + pd, pd + none + "; server_max_window_bits=10", "out 10 in 15"},
	} {
		z := newCompression(t, tt.o)
		list, err := parseExtensions([]string{tt.offer})
		if err != nil {
			t.Fatal(err)
		}
		d, answer := z.accept(list)
		then := ""
		if answer != "" {
			then = describe(d)
		}
		if answer != tt.answer || then != tt.then {
			t.Errorf("%+v, %q:\n got %q, %s\nwant %q, %s", tt.o, tt.offer, answer, then, tt.answer, tt.then)
		}
		if got := z.Stats().Windows; got != int64(d.window()) {
			t.Errorf("%q: %d bytes reserved, want %d", tt.offer, got, d.window())
		}
	}
}

func describe(d deflation) string {
	kept := map[bool]string{true: " kept"}
	return fmt.Sprintf("out %d%s in %d%s", d.outBits, kept[d.outTakeover], d.inBits, kept[d.inTakeover])
}

// What a client offers, and the outcome of each answer. "fail" is an answer
// that must end the connection.
func TestNegotiationOfClient(t *testing.T) {
	const pd = "permessage-deflate"
	const none = "; server_no_context_takeover; client_no_context_takeover"
	plain, keep := CompressionOptions{}, CompressionOptions{ContextTakeover: true, WindowBits: 15}
	small := CompressionOptions{ContextTakeover: true, WindowBits: 12, PeerWindowBits: 10}
	offers := map[CompressionOptions]string{
		plain: pd + none + "; client_max_window_bits",
		keep:  pd + "; client_max_window_bits",
		small: pd + "; server_max_window_bits=10; client_max_window_bits=12",
	}
	for _, tt := range []struct {
		o            CompressionOptions
		answer, then string
	}{
		{plain, "", "off"},
		{plain, pd + none, "out 15 in 15"},
		{plain, pd + "; server_no_context_takeover", "out 15 in 15"},
		{plain, pd + none + "; server_max_window_bits=10; client_max_window_bits=9", "out 9 in 10"},
		{plain, pd, "fail"}, // it would have to keep a window
		{keep, "", "off"},
		{keep, pd, "out 15 kept in 15 kept"},
		{keep, pd + none, "out 15 in 15"},
		{keep, pd + "; client_no_context_takeover", "out 15 in 15 kept"},
		{keep, pd + "; server_max_window_bits=8", "out 15 kept in 8 kept"},
		{keep, pd + "; client_max_window_bits=8", "out 8 kept in 15 kept"},
		{small, pd + "; server_max_window_bits=10", "out 12 kept in 10 kept"},
		{small, pd + "; server_max_window_bits=9; client_max_window_bits=10", "out 10 kept in 9 kept"},
		{small, pd + "; server_max_window_bits=10; client_max_window_bits=14", "out 12 kept in 10 kept"},
		{small, pd, "fail"},
		{small, pd + "; server_max_window_bits=11", "fail"},
		{keep, "other", "fail"},
		{keep, pd + ", " + pd, "fail"},
		{keep, pd + ", other", "fail"},
		{keep, pd + "; unknown", "fail"},
		{keep, pd + "; client_max_window_bits", "fail"},
		{keep, pd + "; client_max_window_bits=7", "fail"},
		{keep, pd + "; server_max_window_bits=16", "fail"},
		{keep, pd + "; server_max_window_bits", "fail"},
		{keep, pd + "; server_no_context_takeover=1", "fail"},
		{keep, pd + "; client_max_window_bits=9; client_max_window_bits=9", "fail"},
	} {
		z := newCompression(t, tt.o)
		want, field := z.offer()
		if field != offers[tt.o] {
			t.Errorf("%+v offers %q, want %q", tt.o, field, offers[tt.o])
		}
		list, err := parseExtensions([]string{tt.answer})
		if err != nil {
			t.Fatal(err)
		}
		d, on, ok := z.settle(want, list)
		got := "off"
		switch {
		case !ok:
			got = "fail"
		case on:
			got = describe(d)
		}
		if got != tt.then {
			t.Errorf("%+v, %q: %s, want %s", tt.o, tt.answer, got, tt.then)
		}
		if held := z.Stats().Windows; held != int64(d.window()) {
			t.Errorf("%q: %d bytes reserved, want %d", tt.answer, held, d.window())
		}
	}
}

func TestCompressionOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]CompressionOptions{
		"Threshold":      {Threshold: -1},
		"Level":          {Level: 10},
		"WindowBits":     {WindowBits: 7},
		"PeerWindowBits": {PeerWindowBits: 16},
		"Memory":         {Memory: -1},
		"Compressors":    {Compressors: -1},
	} {
		if _, err := NewCompression(o); err == nil || !strings.Contains(err.Error(), "CompressionOptions."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzExtensions(f *testing.F) {
	f.Add("permessage-deflate; client_max_window_bits; server_max_window_bits=10, x;y=\"z\"")
	f.Add("a;b=\"\\\"")
	f.Fuzz(func(t *testing.T, field string) {
		list, err := parseExtensions([]string{field})
		if err != nil {
			return
		}
		// An accepted field means the same when it is written out again.
		var out []string
		for _, e := range list {
			s := e.name
			for _, p := range e.params {
				s += "; " + p.name
				if p.valued {
					s += "=" + p.value
				}
			}
			out = append(out, s)
		}
		again, err := parseExtensions([]string{strings.Join(out, ", ")})
		if err != nil || fmt.Sprint(again) != fmt.Sprint(list) {
			t.Fatalf("%q: %v, then %v, %v", field, list, again, err)
		}
		z := newCompression(t, CompressionOptions{ContextTakeover: true})
		d, answer := z.accept(list)
		if answer == "" {
			return
		}
		mine, err := parseExtensions([]string{answer})
		if err != nil || len(mine) != 1 {
			t.Fatalf("answer %q: %v", answer, err)
		}
		if _, ok := parseDeflate(mine[0].params, false); !ok {
			t.Fatalf("answer %q is invalid", answer)
		}
		if z.giveBack(d.window()); z.Stats().Windows != 0 {
			t.Fatalf("%q: %d bytes stay reserved", field, z.Stats().Windows)
		}
	})
}
