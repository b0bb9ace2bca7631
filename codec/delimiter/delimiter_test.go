package delimiter

import (
	"bytes"
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

func codec(t testing.TB, max int, keep, discard bool, delimiters ...string) *Decoder {
	t.Helper()
	o := Options{Max: max, Keep: keep, Discard: discard}
	for _, d := range delimiters {
		o.Delimiters = append(o.Delimiters, []byte(d))
	}
	d, err := Codec(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cut feeds data in pieces and notes frames, skipped frames and the end.
func cut(t testing.TB, d *Decoder, data string, piece int) string {
	t.Helper()
	var out strings.Builder
	from := 0
	for to := 0; to < len(data); {
		to = min(len(data), to+piece)
		for from < to {
			frame, n, err := d.next([]byte(data[from:to]))
			if err != nil {
				if _, ok := errors.AsType[*TooLongError](err); !ok {
					t.Fatal(err)
				}
				if n == 0 {
					return out.String() + "!"
				}
				out.WriteString("~")
			} else if n > 0 && d.skipped == 0 {
				fmt.Fprintf(&out, "[%s]", frame)
			}
			if from += n; n == 0 {
				break
			}
		}
	}
	return out.String()
}

// TestFrames: what is a frame, whatever the pieces.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		delimiters, data, want string
		max                    int
		keep, discard          bool
	}{
		{"\n", "one\ntwo\n\nrest", "[one][two][]", 10, false, false},
		{"\n", "one\ntwo\n", "[one\n][two\n]", 10, true, false},
		{"\r\n \n", "a\r\nb\nc\r\r\n", "[a][b][c\r]", 10, false, false},
		{"\n \r\n", "a\r\nb\nc\r\r\n", "[a][b][c\r]", 10, false, false},
		{"\r \r\n", "a\r\nb", "[a]", 10, false, false}, // the shorter one is complete first
		{"xyz y", "axyzb", "[ax]", 10, false, false},
		{"--end--", "a-b--end-c--end----end--", "[a-b--end-c][]", 20, false, false},
		{"aa", "aaaa b aa", "[][][ b ]", 20, false, false},
		{"\n", "12345\n", "[12345]", 5, false, false},
		{"\n", "123456\n", "!", 5, false, false},
		{"\r\n", "12345\r\n123456", "[12345]", 5, false, false},
		{"\r\n", "ok\r\n1234567890", "[ok]!", 5, false, false},
		{"\n", "ok\n123456\nok\n", "[ok]~[ok]", 5, false, true},
		{"\r\n", "1234567890\r123\r\nok\r\n1234567\r\n\r\n", "~[ok]~[]", 5, false, true},
		{"--end--", "a--end--12345678901234567890--en--end--b--end--", "[a]~[b]", 5, false, true},
		{"|", strings.Repeat("x", 5000) + "|" + strings.Repeat("y", 100) + "|", "[" + strings.Repeat("x", 5000) + "][" + strings.Repeat("y", 100) + "]", 5000, false, false},
	} {
		for _, piece := range []int{1, 2, 3, 5, 64, 1 << 20} {
			d := codec(t, c.max, c.keep, c.discard, strings.Split(c.delimiters, " ")...)
			if got := cut(t, d, c.data, piece); got != c.want {
				t.Errorf("%.40q at %q in pieces of %d: %.60q, want %.60q", c.data, c.delimiters, piece, got, c.want)
			}
		}
	}
}

// TestEveryByteIsSearchedOnce: a long frame that drips costs time in proportion to its length.
func TestEveryByteIsSearchedOnce(t *testing.T) {
	d := codec(t, 1<<20, false, false, "\n", "never occurs")
	view := bytes.Repeat([]byte("x"), 1<<20)
	for n := 1; n < len(view); n += 97 {
		if _, consumed, err := d.next(view[:n]); consumed != 0 || err != nil || d.scanned != n {
			t.Fatalf("after %d bytes: consumed %d, scanned %d, %v", n, consumed, d.scanned, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"Delimiters": {}, "delimiter \"\"": {Delimiters: [][]byte{nil}}, "of 257 bytes": {Delimiters: [][]byte{make([]byte, 257)}},
		"Max": {Delimiters: [][]byte{{1}}, Max: -1}, "1073741825": {Delimiters: [][]byte{{1}}, Max: 1<<30 + 1},
	} {
		if _, err := Codec(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := codec(t, 0, false, false, "\n"); d.o.Max != DefaultMax {
		t.Errorf("max %d", d.o.Max)
	}
}

// TestOnTheWire: a frame that is too long ends the connection with its reason, or is skipped and told to the handlers.
func TestOnTheWire(t *testing.T) {
	for _, discard := range []bool{false, true} {
		s := codectest.Serve(t, func() (eddy.Decoder, error) { return codec(t, 5, false, discard, "\r\n", "\n"), nil }, func(err error) bool {
			e, ok := errors.AsType[*TooLongError](err)
			return ok && e.Seen > 1000
		})
		c := s.Dial()
		c.Send("ok\r\n" + strings.Repeat("x", 100_000) + "\nafter\n")
		if !discard {
			c.Expect("[ok]")
			s.WantEnd(c, eddy.CloseFrameTooLarge)
			continue
		}
		c.Expect("[ok]too long[after]")
		s.WantTimeout(c, strings.Repeat("x", 10)) // skipping has an end in time, although bytes keep coming
	}
}

// FuzzFrames: pieces make no difference, and where nothing is too long the frames are what a plain search finds.
func FuzzFrames(f *testing.F) {
	f.Add("one\r\ntwo\n\nthree", "\n", "\r\n", uint8(1), uint8(100), false)
	f.Add("aaaa b aa", "aa", "ab", uint8(2), uint8(3), true)
	f.Add("1234567890--end--", "--end--", "-", uint8(0), uint8(5), true)
	f.Fuzz(func(t *testing.T, data, a, b string, piece, max uint8, discard bool) {
		if a == "" || b == "" || len(a) > 20 || len(b) > 20 || max == 0 {
			return
		}
		whole := cut(t, codec(t, int(max), false, discard, a, b), data, len(data)+1)
		if got := cut(t, codec(t, int(max), false, discard, a, b), data, 1+int(piece)); got != whole {
			t.Errorf("%q: %q in pieces of %d, %q as a whole", data, got, 1+int(piece), whole)
		}
		var want strings.Builder
		start := 0
		for end := 1; end <= len(data); end++ {
			frame := data[start:end]
			n := 0
			for _, x := range []string{a, b} {
				if strings.HasSuffix(frame, x) {
					n = longer(n, len(x))
				}
			}
			if n == 0 {
				continue
			}
			if len(frame)-n > int(max) {
				if !discard {
					want.WriteString("!")
					break
				}
				want.WriteString("~")
			} else {
				fmt.Fprintf(&want, "[%s]", frame[:len(frame)-n])
			}
			start = end
		}
		if !strings.HasPrefix(whole, want.String()) || strings.Trim(whole[want.Len():], "!") != "" {
			t.Errorf("%q at %q and %q: %q, want %q", data, a, b, whole, want.String())
		}
	})
}

func longer(a, b int) int { return max(a, b) } // the fuzz target has a max of its own

// Records that end with a NUL byte.
func ExampleCodec() {
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		records, err := Codec(Options{Delimiters: [][]byte{{0}}, Max: 100})
		if err != nil {
			return err
		}
		p.Add("records", records)
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
	io.WriteString(c, "one\x00two\x00")
	got := make([]byte, 8)
	io.ReadFull(c, got)
	fmt.Printf("%s", got)
	// Output:
	// one
	// two
}
