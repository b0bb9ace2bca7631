package lengthfield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/internal/codectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func codec(t testing.TB, o Options) *Decoder {
	t.Helper()
	d, err := Codec(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cut feeds data in pieces and notes frames, skipped frames (~) and the end: too long (!) or corrupted (?).
func cut(t testing.TB, d *Decoder, data string, piece int) string {
	t.Helper()
	var out strings.Builder
	from := 0
	for to := 0; to < len(data); {
		to = min(len(data), to+piece)
		for from < to {
			frame, n, err := d.next([]byte(data[from:to]))
			_, long := errors.AsType[*TooLongError](err)
			_, corrupted := errors.AsType[*CorruptedError](err)
			switch {
			case long && n > 0:
				out.WriteString("~")
			case long:
				return out.String() + "!"
			case corrupted && n == 0:
				return out.String() + "?"
			case err != nil:
				t.Fatal(err)
			case n > 0 && d.left == 0:
				fmt.Fprintf(&out, "[%s]", frame)
			}
			if from += n; n == 0 {
				break
			}
		}
	}
	return out.String()
}

// TestFrames: every parameter, whatever the pieces.
func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		o          Options
		data, want string
	}{
		"one byte":                   {Options{Length: 1}, "\x02ab\x00\x03cde\x05rest", "[\x02ab][\x00][\x03cde]"},
		"two bytes":                  {Options{Length: 2}, "\x00\x02ab", "[\x00\x02ab]"},
		"three bytes":                {Options{Length: 3}, "\x00\x00\x02ab", "[\x00\x00\x02ab]"},
		"four bytes":                 {Options{Length: 4}, "\x00\x00\x00\x02ab", "[\x00\x00\x00\x02ab]"},
		"eight bytes":                {Options{Length: 8}, "\x00\x00\x00\x00\x00\x00\x00\x02ab", "[\x00\x00\x00\x00\x00\x00\x00\x02ab]"},
		"little-endian":              {Options{Length: 2, LittleEndian: true}, "\x02\x00ab\x00\x00", "[\x02\x00ab][\x00\x00]"},
		"stripped field":             {Options{Length: 2, Strip: 2}, "\x00\x02ab\x00\x01c", "[ab][c]"},
		"field counts all":           {Options{Length: 2, Adjustment: -2}, "\x00\x04ab\x00\x02", "[\x00\x04ab][\x00\x02]"},
		"field behind a header":      {Options{Offset: 2, Length: 2}, "HH\x00\x02ab", "[HH\x00\x02ab]"},
		"header behind the field":    {Options{Length: 1, Adjustment: 2}, "\x02HHab", "[\x02HHab]"},
		"headers all round":          {Options{Offset: 1, Length: 1, Adjustment: 1, Strip: 2}, "H\x02hab", "[hab]"},
		"all counted, all round":     {Options{Offset: 1, Length: 1, Adjustment: -2, Strip: 2}, "H\x04ab", "[ab]"},
		"at the limit":               {Options{Length: 1, Max: 4}, "\x03abc", "[\x03abc]"},
		"beyond":                     {Options{Length: 1, Max: 4}, "\x01a\x04", "[\x01a]!"},
		"beyond, skipped":            {Options{Length: 1, Max: 4, Discard: true}, "\x01a\x04bcde\x01f", "[\x01a]~[\x01f]"},
		"beyond, skipped, stripped":  {Options{Length: 1, Max: 4, Strip: 1, Discard: true}, "\xff" + strings.Repeat("x", 255) + "\x01f", "~[f]"},
		"never ends":                 {Options{Length: 8, Max: 100, Discard: true}, "\x3f\xff\xff\xff\xff\xff\xff\xffabcdefgh", ""},
		"negative":                   {Options{Length: 8}, "\x80\x00\x00\x00\x00\x00\x00\x00", "?"},
		"overflows":                  {Options{Length: 8, Adjustment: bound}, "\x7f\xff\xff\xff\xff\xff\xff\xff", "?"},
		"ends before its field":      {Options{Length: 2, Adjustment: -2}, "\x00\x02\x00\x01", "[\x00\x02]?"},
		"shorter than what to strip": {Options{Length: 1, Strip: 3}, "\x02ab\x01", "[]?"},
	} {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			if got := cut(t, codec(t, c.o), c.data, piece); got != c.want {
				t.Errorf("%s, in pieces of %d: %q, want %q", name, piece, got, c.want)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"Length is 0": {}, "Length is 5": {Length: 5}, "Offset": {Length: 1, Offset: -1}, "Adjustment": {Length: 1, Adjustment: -bound - 1},
		"Strip": {Length: 1, Strip: -1}, "Max is 3": {Length: 4, Max: 3}, "Max is -1": {Length: 4, Max: -1}, "Max is 1073741825": {Length: 4, Max: bound + 1},
	} {
		if _, err := Codec(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := codec(t, Options{Length: 1}); d.o.Max != DefaultMax {
		t.Errorf("max %d", d.o.Max)
	}
}

// TestOnTheWire: what a peer sees of frames that are too long or corrupted, and with which reason its connection ends.
func TestOnTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		o          Options
		send, want string
		reason     eddy.CloseReason
	}{
		"too long":  {Options{Length: 4, Max: 100, Strip: 4}, "\x00\x00\x00\x02ok\xff\xff\xff\xff", "[ok]", eddy.CloseFrameTooLarge},
		"corrupted": {Options{Length: 4, Adjustment: -4, Discard: true}, "\x00\x00\x00\x05x\x00\x00\x00\x03", "[\x00\x00\x00\x05x]", eddy.CloseProtocolError},
		"skipped": {Options{Length: 4, Max: 100, Strip: 4, Discard: true}, "\x00\x00\x00\x02ok\x00\x03\x00\x00" + strings.Repeat("x", 0x30000) + "\x00\x00\x00\x02ok\x00\x01\x00\x00",
			"[ok]too long[ok]", eddy.CloseBodyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := codectest.Serve(t, func() (eddy.Decoder, error) { return codec(t, c.o), nil }, func(err error) bool {
				e, ok := errors.AsType[*TooLongError](err)
				return ok && e.Length == 0x30004
			})
			conn := s.Dial()
			conn.Send(c.send)
			conn.Expect(c.want)
			if c.reason == eddy.CloseBodyTimeout { // skipping has an end in time, although bytes keep coming
				s.WantTimeout(conn, "x")
			} else {
				s.WantEnd(conn, c.reason)
			}
		})
	}
}

// FuzzFrames compares the decoder with the definition of Options, for length fields of four bytes.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00"), uint8(0), int8(0), uint8(0), uint8(100), uint8(1), false)
	f.Add([]byte("H\x00\x00\x00\x08ab"), uint8(1), int8(-5), uint8(5), uint8(7), uint8(2), true)
	f.Fuzz(func(t *testing.T, data []byte, offset uint8, adjustment int8, strip, most, piece uint8, discard bool) {
		o := Options{Offset: int(offset), Length: 4, Adjustment: int(adjustment), Strip: int(strip), Max: int(most), Discard: discard}
		if _, err := Codec(o); err != nil {
			return
		}
		whole := cut(t, codec(t, o), string(data), len(data)+1)
		if got := cut(t, codec(t, o), string(data), 1+int(piece)); got != whole {
			t.Fatalf("%q in pieces, %q as a whole", got, whole)
		}
		var want strings.Builder
		limit := o.Max
		if limit == 0 {
			limit = DefaultMax
		}
		for rest := data; len(rest) >= o.Offset+4; {
			total := int(binary.BigEndian.Uint32(rest[o.Offset:])) + o.Adjustment + o.Offset + 4
			if total < o.Offset+4 || total < o.Strip {
				want.WriteString("?")
				break
			}
			if total > limit && !discard {
				want.WriteString("!")
				break
			}
			if total > len(rest) {
				break
			}
			if total > limit {
				want.WriteString("~")
			} else {
				fmt.Fprintf(&want, "[%s]", rest[o.Strip:total])
			}
			rest = rest[total:]
		}
		if whole != want.String() {
			t.Errorf("%q, want %q", whole, want.String())
		}
	})
}

// Each message stands behind its length in two bytes, which are stripped.
func ExampleCodec() {
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		messages, err := Codec(Options{Length: 2, Strip: 2, Max: 1000})
		if err != nil {
			return err
		}
		p.Add("messages", messages)
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			return ctx.Write(string(m.Bytes()) + "\n")
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	io.WriteString(c, "\x00\x03one\x00\x03two")
	got := make([]byte, 8)
	io.ReadFull(c, got)
	fmt.Printf("%s", got)
	// Output:
	// one
	// two
}
