package fixed

import (
	"bytes"
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

// TestFrames: frames do not depend on how they arrive. An end inside a frame is told apart from an end between two.
func TestFrames(t *testing.T) {
	s := codectest.Serve(t, func() (eddy.Decoder, error) { return Codec(4) }, nil)
	for _, c := range []struct {
		send, want string
		piece      int
		end        eddy.CloseReason
	}{
		{"abcd", "[abcd]", 4, eddy.ClosePeerClosed},
		{"abcdefghijkl", "[abcd][efgh][ijkl]", 12, eddy.ClosePeerClosed},
		{"abcdefgh", "[abcd][efgh]", 1, eddy.ClosePeerClosed},
		{"abcdefgh", "[abcd][efgh]", 3, eddy.ClosePeerClosed},
		{"abcdef", "[abcd]", 5, eddy.CloseIncompleteRequest},
		{strings.Repeat("wxyz", 1000), strings.Repeat("[wxyz]", 1000), 4000, eddy.ClosePeerClosed},
	} {
		conn := s.Dial()
		for rest := c.send; rest != ""; {
			n := min(c.piece, len(rest))
			conn.Send(rest[:n])
			rest = rest[n:]
		}
		conn.Expect(c.want)
		s.WantEnd(conn, c.end)
	}
}

func TestLength(t *testing.T) {
	for _, n := range []int{-1, 0, MaxLength + 1} {
		if _, err := Codec(n); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// FuzzFrames: the frames are the bytes, cut where the length says, whatever the pieces.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("abcdefghij"), uint8(3), uint8(1))
	f.Add([]byte(""), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, length, piece uint8) {
		d, err := Codec(int(length))
		if err != nil {
			if length != 0 {
				t.Fatal(err)
			}
			return
		}
		var got []byte
		from := 0
		for to := 0; to < len(data); {
			to = min(len(data), to+1+int(piece))
			for frame := d.next(data[from:to]); frame != nil; frame = d.next(data[from:to]) {
				if len(frame) != int(length) {
					t.Fatalf("a frame of %d bytes", len(frame))
				}
				got = append(got, frame...)
				from += len(frame)
			}
		}
		if !bytes.Equal(got, data[:len(data)-len(data)%int(length)]) {
			t.Errorf("%q became %q", data, got)
		}
	})
}

// Frames of four bytes.
func ExampleCodec() {
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		frames, err := Codec(4)
		if err != nil {
			return err
		}
		p.Add("frames", frames)
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			return ctx.WriteBytes(append(m.Bytes(), '\n'))
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
	io.WriteString(c, "onlyfour")
	got := make([]byte, 10)
	io.ReadFull(c, got)
	fmt.Printf("%s", got)
	// Output:
	// only
	// four
}
