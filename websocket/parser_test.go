package websocket

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// frame builds a masked client frame; first is the first byte on the wire.
func frame(first byte, payload string) string {
	return string(maskedFrame(first, []byte(payload), [4]byte{0x37, 0xfa, 0x21, 0x3d}))
}

func maskedFrame(first byte, payload []byte, key [4]byte) []byte {
	b := appendHeader(nil, 0, len(payload))
	b[0] = first
	b[1] |= 0x80
	b = append(b, key[:]...)
	masked := make([]byte, len(payload))
	subtle.XORBytes(masked, payload, bytes.Repeat(key[:], len(payload)/4+1))
	return append(b, masked...)
}

// parserOf makes parsers of a server with these limits.
func parserOf(maxMessage, maxFrame int) func() *parser {
	return func() *parser {
		return &parser{lim: &limits{message: maxMessage, frame: maxFrame, fragments: 8}}
	}
}

// feedAll runs a parser over the input in pieces, the way the decoder does, and
// returns what came out as text.
func feedAll(p *parser, input []byte, pieces func(left int) int) string {
	var out strings.Builder
	var held []byte
	for len(input) > 0 {
		k := pieces(len(input))
		held = append(held, input[:k]...)
		input = input[k:]
		for {
			ev, n, ok, err := p.next(held)
			if err != nil {
				fmt.Fprintf(&out, "error %d %s\n", err.code, err.reason)
				return out.String()
			}
			if ok {
				if ev.deflated {
					out.WriteString("deflated ")
				}
				fmt.Fprintf(&out, "%s %q\n", ev.op, ev.data)
			}
			held = held[n:]
			if n == 0 {
				break
			}
		}
	}
	return out.String()
}

// everyWay parses the input whole, byte by byte and at random splits, and
// expects the same outcome each time.
func everyWay(t *testing.T, fresh func() *parser, input string) string {
	t.Helper()
	want := feedAll(fresh(), []byte(input), func(left int) int { return left })
	rng := rand.New(rand.NewPCG(2, uint64(len(input))))
	for round := range 12 {
		got := feedAll(fresh(), []byte(input), func(left int) int {
			switch {
			case round == 0 && len(input) < 40000:
				return 1
			case round < 6:
				return 1 + rng.IntN(min(left, 9))
			}
			return 1 + rng.IntN(left)
		})
		if got != want {
			t.Fatalf("round %d: split input gives\n%.300s\nwhole input gives\n%.300s", round, got, want)
		}
	}
	return want
}

func TestParserAccepts(t *testing.T) {
	large := strings.Repeat("0123456789abcdé", 3000)
	tests := []struct{ name, in, want string }{
		{"text", frame(0x81, "hello"), "text \"hello\"\n"},
		{"empty text", frame(0x81, ""), "text \"\"\n"},
		{"binary", frame(0x82, "\x00\xff"), "binary \"\\x00\\xff\"\n"},
		{"16-bit length", frame(0x81, large[:200]), fmt.Sprintf("text %q\n", large[:200])},
		{"beyond the direct size", frame(0x81, large), fmt.Sprintf("text %q\n", large)},
		{"64-bit length", frame(0x82, large+large), fmt.Sprintf("binary %q\n", large+large)},
		{"as many fragments as allowed", frame(0x01, "a") + strings.Repeat(frame(0x00, "b"), 6) + frame(0x80, "c"), "text \"abbbbbbc\"\n"},
		{"several frames", frame(0x81, "a") + frame(0x89, "p") + frame(0x81, "b"), "text \"a\"\nping \"p\"\ntext \"b\"\n"},
		{"fragments with controls between", frame(0x01, "he") + frame(0x89, "1") + frame(0x00, "l") + frame(0x8a, "") + frame(0x80, "lo"),
			"ping \"1\"\npong \"\"\ntext \"hello\"\n"},
		{"empty fragments", frame(0x01, "") + frame(0x00, "") + frame(0x80, ""), "text \"\"\n"},
		{"rune cut by fragments", frame(0x01, "\xf0\x9f") + frame(0x00, "\x98") + frame(0x80, "\x80!"), "text \"😀!\"\n"},
		{"bad UTF-8 is fine in binary", frame(0x02, "\xff") + frame(0x80, "\xfe"), "binary \"\\xff\\xfe\"\n"},
		{"large fragment then small", frame(0x01, large) + frame(0x80, "z"), fmt.Sprintf("text %q\n", large+"z")},
		{"close without code", frame(0x88, ""), "close \"\"\n"},
		{"close with code and reason", frame(0x88, "\x03\xe8bye"), "close \"\\x03\\xe8bye\"\n"},
		{"close with application code", frame(0x88, "\x0f\xa0"), "close \"\\x0f\\xa0\"\n"},
		{"largest control", frame(0x89, strings.Repeat("p", 125)), fmt.Sprintf("ping %q\n", strings.Repeat("p", 125))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := everyWay(t, parserOf(1<<20, 1<<20), tt.in); got != tt.want {
				t.Errorf("got %.300s want %.300s", got, tt.want)
			}
		})
	}
}

func TestParserRefuses(t *testing.T) {
	unmasked := func(first byte, payload string) string {
		return string([]byte{first, byte(len(payload))}) + payload
	}
	length := func(first, second byte, ext string) string { return string([]byte{first, second}) + ext }
	tests := []struct {
		name string
		in   string
		code int
	}{
		{"unmasked text", unmasked(0x81, "hi"), 1002},
		{"unmasked close", unmasked(0x88, "\x03\xe8"), 1002},
		{"rsv1", frame(0xc1, "a"), 1002},
		{"rsv2", frame(0xa1, "a"), 1002},
		{"rsv3", frame(0x91, "a"), 1002},
		{"rsv1 on control", frame(0xc9, "a"), 1002},
		{"reserved data opcode 3", frame(0x83, "a"), 1002},
		{"reserved data opcode 7", frame(0x87, "a"), 1002},
		{"reserved control opcode b", frame(0x8b, "a"), 1002},
		{"reserved control opcode f", frame(0x8f, "a"), 1002},
		{"fragmented ping", frame(0x09, "a"), 1002},
		{"fragmented close", frame(0x08, "\x03\xe8"), 1002},
		{"control of 126 bytes", frame(0x89, strings.Repeat("p", 126)), 1002},
		{"16-bit length for 125", length(0x82, 0xfe, "\x00\x7d"), 1002},
		{"64-bit length for 65535", length(0x82, 0xff, "\x00\x00\x00\x00\x00\x00\xff\xff"), 1002},
		{"64-bit length with high bit", length(0x82, 0xff, "\x80\x00\x00\x00\x00\x01\x00\x00"), 1002},
		{"continuation first", frame(0x80, "a"), 1002},
		{"continuation after a whole message", frame(0x81, "a") + frame(0x80, "b"), 1002},
		{"text inside fragments", frame(0x01, "a") + frame(0x81, "b"), 1002},
		{"binary inside fragments", frame(0x02, "a") + frame(0x02, "b"), 1002},
		{"close of one byte", frame(0x88, "\x03"), 1002},
		{"close code 999", frame(0x88, "\x03\xe7"), 1002},
		{"close code 1004", frame(0x88, "\x03\xec"), 1002},
		{"close code 1005", frame(0x88, "\x03\xed"), 1002},
		{"close code 1006", frame(0x88, "\x03\xee"), 1002},
		{"close code 1015", frame(0x88, "\x03\xf7"), 1002},
		{"close code 2999", frame(0x88, "\x0b\xb7"), 1002},
		{"close code 5000", frame(0x88, "\x13\x88"), 1002},
		{"close reason not UTF-8", frame(0x88, "\x03\xe8\xff"), 1007},
		{"text not UTF-8", frame(0x81, "a\xffb"), 1007},
		{"text with surrogate", frame(0x81, "\xed\xa0\x80"), 1007},
		{"text overlong", frame(0x81, "\xc0\xaf"), 1007},
		{"text ends inside a rune", frame(0x81, "\xe2\x82"), 1007},
		{"fragments end inside a rune", frame(0x01, "\xe2") + frame(0x80, "\x82"), 1007},
		{"bad byte in a later fragment", frame(0x01, "ok \xe2") + frame(0x00, "\x28"), 1007},
		{"large text not UTF-8", frame(0x81, strings.Repeat("x", 30000)+"\xff"+strings.Repeat("x", 9000)), 1007},
		{"frame over the limit", length(0x82, 0xff, "\x00\x00\x00\x00\x00\x01\x00\x00"), 1009},
		{"largest length there is", length(0x82, 0xff, "\x7f\xff\xff\xff\xff\xff\xff\xff"), 1009},
		{"too many fragments", frame(0x01, "a") + strings.Repeat(frame(0x00, "b"), 8), 1009},
		{"too many empty fragments", frame(0x02, "") + strings.Repeat(frame(0x00, ""), 8), 1009},
		{"fragments over the limit", frame(0x01, strings.Repeat("x", 40000)) + frame(0x80, strings.Repeat("x", 10001)), 1009},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := everyWay(t, parserOf(50000, 45000), tt.in)
			if want := fmt.Sprintf("error %d ", tt.code); !strings.Contains(got, want) {
				t.Errorf("got %.300s, want %s", got, want)
			}
		})
	}
}

// serverFrame builds an unmasked frame.
func serverFrame(first byte, payload string) string {
	return string(appendHeader(nil, first, len(payload))) + payload
}

// The client's parser accepts unmasked frames only, the server's masked ones
// only.
func TestParserOfClient(t *testing.T) {
	client := func() *parser {
		return &parser{lim: &limits{message: 50000, frame: 45000, fragments: 8, unmasked: true}}
	}
	large := strings.Repeat("0123456789", 4000)
	for _, tt := range []struct{ name, in, want string }{
		{"text", serverFrame(0x81, "hello"), "text \"hello\"\n"},
		{"empty", serverFrame(0x82, ""), "binary \"\"\n"},
		{"large", serverFrame(0x82, large), fmt.Sprintf("binary %q\n", large)},
		{"fragments", serverFrame(0x01, "\xc3") + serverFrame(0x89, "") + serverFrame(0x80, "\xa9"), "ping \"\"\ntext \"é\"\n"},
		{"close", serverFrame(0x88, "\x03\xe8bye"), "close \"\\x03\\xe8bye\"\n"},
		{"masked text", frame(0x81, "hello"), "error 1002 frame of a server is masked\n"},
		{"masked ping", frame(0x89, ""), "error 1002 frame of a server is masked\n"},
		{"reserved bit 1", serverFrame(0xc1, "x"), "error 1002 reserved bit 1 is set and no extension uses it\n"},
		{"bad UTF-8", serverFrame(0x81, "a\xff"), "error 1007 text is not UTF-8\n"},
		{"too large", serverFrame(0x82, large+large), "error 1009 frame over the limit of 45000 bytes\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := everyWay(t, client, tt.in); got != tt.want {
				t.Errorf("got %.300s want %.300s", got, tt.want)
			}
		})
	}
}

// RFC 7692 section 6: where reserved bit 1 may stand once the extension is on.
func TestParserOfCompressedMessages(t *testing.T) {
	fresh := func() *parser {
		return &parser{lim: &limits{message: 1000, frame: 1000, fragments: 8}, deflate: true}
	}
	for _, tt := range []struct{ name, in, want string }{
		{"compressed", frame(0xc1, "\xff\xfe"), "deflated text \"\\xff\\xfe\"\n"},
		{"compressed binary", frame(0xc2, "x"), "deflated binary \"x\"\n"},
		{"not compressed", frame(0x81, "x"), "text \"x\"\n"},
		{"fragments", frame(0x41, "\xff") + frame(0x89, "") + frame(0x00, "b") + frame(0x80, "c"), "ping \"\"\ndeflated text \"\\xffbc\"\n"},
		{"one after the other", frame(0x41, "a") + frame(0x80, "b") + frame(0x81, "c") + frame(0xc1, "d"), "deflated text \"ab\"\ntext \"c\"\ndeflated text \"d\"\n"},
		{"on a continuation", frame(0x41, "a") + frame(0xc0, "b"), "error 1002 reserved bit 1 is set on a continuation\n"},
		{"on a continuation of a plain message", frame(0x01, "a") + frame(0xc0, "b"), "error 1002 reserved bit 1 is set on a continuation\n"},
		{"on a ping", frame(0xc9, "a"), "error 1002 control frame is compressed\n"},
		{"on a pong", frame(0xca, "a"), "error 1002 control frame is compressed\n"},
		{"on a close", frame(0xc8, "\x03\xe8"), "error 1002 control frame is compressed\n"},
		{"with bit 2", frame(0xe1, "a"), "error 1002 reserved bits are set\n"},
		{"with bit 3", frame(0xd1, "a"), "error 1002 reserved bits are set\n"},
		{"bad UTF-8 in a plain message", frame(0x81, "\xff"), "error 1007 text is not UTF-8\n"},
		{"a little over the limit, which may fit", frame(0xc2, strings.Repeat("x", 1010)), fmt.Sprintf("deflated binary %q\n", strings.Repeat("x", 1010))},
		{"over the limit and the slack", frame(0xc2, strings.Repeat("x", 1000+deflateSlack(1000)+1)), "error 1009 frame over the limit of 1000 bytes\n"},
		{"plain, a little over", frame(0x82, strings.Repeat("x", 1001)), "error 1009 frame over the limit of 1000 bytes\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := everyWay(t, fresh, tt.in); got != tt.want {
				t.Errorf("got %.300s want %.300s", got, tt.want)
			}
		})
	}
}

// Invalid text is refused as soon as its first wrong byte is there, wherever in
// frame and message that is (RFC 6455 section 8.1).
func TestParserRefusesTextAtOnce(t *testing.T) {
	for name, good := range map[string]string{
		"start":            "",
		"ascii":            strings.Repeat("a", 700),
		"after runes":      "κόσμε",
		"inside a rune":    "ok \xf4",
		"far into a frame": strings.Repeat("κόσμε ", 1500),
	} {
		bad := "\xff"
		if name == "inside a rune" {
			bad = "\x90" // beyond U+10FFFF
		}
		for _, in := range []struct{ kind, frames string }{
			{"one frame", frame(0x81, good+bad+"the rest")},
			{"second fragment", frame(0x01, "first ") + frame(0x80, good+bad+"the rest")},
			{"large frame", frame(0x81, good+bad+strings.Repeat("r", directMax))},
		} {
			at := len(in.frames) - len("the rest")
			if in.kind == "large frame" {
				at = len(in.frames) - directMax
			}
			p := parserOf(1<<20, 1<<20)()
			step := func(left int) int { return 1 }
			if got := feedAll(p, []byte(in.frames[:at-1]), step); got != "" {
				t.Errorf("%s, %s: %s before the wrong byte", name, in.kind, got)
			}
			p = parserOf(1<<20, 1<<20)()
			if got := feedAll(p, []byte(in.frames[:at]), step); got != "error 1007 text is not UTF-8\n" {
				t.Errorf("%s, %s: %q at the wrong byte", name, in.kind, got)
			}
		}
	}
}

// A frame that only announces a size costs nothing, because memory follows the
// bytes that came.
func TestParserMemoryFollowsBytes(t *testing.T) {
	p := parserOf(1<<30, 1<<30)()
	head := binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, 1<<30)
	head = append(head, 1, 2, 3, 4)
	if _, n, ok, err := p.next(head); n != len(head) || ok || err != nil {
		t.Fatalf("header: %d, %v, %v", n, ok, err)
	}
	if cap(p.message) != 0 {
		t.Errorf("%d bytes reserved for a header", cap(p.message))
	}
	if _, n, _, _ := p.next(make([]byte, 1000)); n != 1000 || cap(p.message) > 4096 {
		t.Errorf("consumed %d, reserved %d after 1000 bytes of payload", n, cap(p.message))
	}
}

// A complete message is handed out without a copy, and no buffer is kept.
func TestParserDoesNotCopySmallMessages(t *testing.T) {
	p := parserOf(1<<20, 1<<20)()
	src := []byte(frame(0x82, "payload"))
	view := make([]byte, len(src))
	allocs := testing.AllocsPerRun(100, func() {
		copy(view, src)
		ev, n, ok, err := p.next(view)
		if !ok || err != nil || n != len(view) || &ev.data[0] != &view[6] || string(ev.data) != "payload" {
			t.Fatalf("%q, %d, %v, %v", ev.data, n, ok, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a small message", allocs)
	}
}

func TestUnmaskContinues(t *testing.T) {
	key := [4]byte{1, 2, 3, 4}
	for size := range 100 {
		for cut := 0; cut <= size; cut++ {
			p := make([]byte, size)
			want := make([]byte, size)
			for i := range p {
				p[i] = byte(i * 7)
				want[i] = p[i] ^ key[i%4]
			}
			k := unmask(p[:cut], binary.LittleEndian.Uint32(key[:]))
			unmask(p[cut:], k)
			if !bytes.Equal(p, want) {
				t.Fatalf("size %d cut at %d: %x, want %x", size, cut, p, want)
			}
		}
	}
}

// In both roles, with and without the extension, the output does not depend on
// how the input is cut, and nothing grows beyond the limits.
func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		frame(0x81, "hello"), frame(0x01, "h\xc3") + frame(0x89, "") + frame(0x80, "\xa9"),
		frame(0x88, "\x03\xe8bye"), frame(0x82, strings.Repeat("x", 20000)), frame(0xc1, "\xf2\x00") + frame(0x80, ""),
		serverFrame(0x81, "hello"), serverFrame(0x01, "h\xc3") + serverFrame(0x89, "") + serverFrame(0x80, "\xa9"), serverFrame(0xc2, "\x00"),
	} {
		for role := range uint8(4) {
			f.Add([]byte(s), uint16(3), role)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, split uint16, role uint8) {
		const limit = 100000
		fresh := func() *parser {
			return &parser{lim: &limits{message: limit, frame: limit, fragments: 100, unmasked: role&1 != 0}, deflate: role&2 != 0}
		}
		whole := feedAll(fresh(), bytes.Clone(in), func(left int) int { return left })
		p := fresh()
		parts := feedAll(p, bytes.Clone(in), func(left int) int { return min(left, 1+int(split)) })
		if whole != parts {
			t.Fatalf("whole input gives\n%s\nsplit input gives\n%s", whole, parts)
		}
		if len(p.message) > limit+deflateSlack(limit) {
			t.Fatalf("%d bytes collected, limit %d", len(p.message), limit)
		}
	})
}

// The head of a response, cut anywhere: the verdict is the same, and an accepted
// one has the right key.
func FuzzResponse(f *testing.F) {
	const ok = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
	f.Add(ok + "\r\n")
	f.Add(ok + "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=9\r\n\r\n")
	f.Add("HTTP/1.1 404 Not Found\r\n\r\n")
	z := newCompression(f, CompressionOptions{ContextTakeover: true})
	f.Fuzz(func(t *testing.T, head string) {
		hs := &handshaker{want: challenge{answer: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}}
		hs.c = &Conn{cfg: &config{Options: Options{Subprotocols: []string{"a"}, Compression: z}}}
		hs.offered, _ = z.offer()
		err := hs.judge([]byte(head))
		if err == nil && !strings.Contains(head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") {
			t.Fatalf("%q was accepted", head)
		}
		if p := hs.c.subprotocol; p != "" && p != "a" {
			t.Fatalf("subprotocol %q", p)
		}
		hs.abandon()
		if d := hs.c.deflate; d != nil {
			z.giveBack(d.window())
		}
		if n := z.Stats().Windows; n != 0 {
			t.Fatalf("%q: %d bytes stay reserved", head, n)
		}
	})
}

func FuzzUTF8(f *testing.F) {
	f.Add([]byte("a\xc3\xa9\xf0\x9f\x98\x80"), uint8(1))
	f.Add([]byte("\xed\xa0\x80"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, split uint8) {
		var u utf8Check
		ok := true
		for rest := in; len(rest) > 0 && ok; {
			n := min(len(rest), 1+int(split))
			ok = u.feed(rest[:n])
			rest = rest[n:]
		}
		if ok = ok && u.complete(); ok != utf8.Valid(in) {
			t.Fatalf("%x: valid %v, unicode/utf8 says %v", in, ok, utf8.Valid(in))
		}
	})
}

func BenchmarkParser(b *testing.B) {
	for _, size := range []int{16, 128, 4096, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := parserOf(1<<20, 1<<20)()
			src := maskedFrame(0x82, make([]byte, size), [4]byte{1, 2, 3, 4})
			view := make([]byte, len(src))
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(view, src)
				if _, n, ok, err := p.next(view); n != len(view) || !ok || err != nil {
					b.Fatal(n, ok, err)
				}
			}
		})
	}
}

func BenchmarkUTF8(b *testing.B) {
	p := []byte(strings.Repeat("héllo wörld ", 100))
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		var u utf8Check
		if !u.feed(p) {
			b.Fatal("invalid")
		}
	}
}
