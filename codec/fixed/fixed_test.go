package fixed

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every frame with itself in brackets and reports how connections end.
func serve(t testing.TB, length int) (addr string, ends chan eddy.CloseReason) {
	t.Helper()
	ends = make(chan eddy.CloseReason, 10)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		d, err := Codec(length)
		if err != nil {
			return err
		}
		p.Add("frames", d)
		return p.Add("brackets", brackets{ends})
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv.Addr().String(), ends
}

type brackets struct{ ends chan eddy.CloseReason }

func (b brackets) HandleRead(ctx *eddy.Context, msg any) error {
	return ctx.Write(fmt.Sprintf("[%s]", msg.(*buf.Bytes).Bytes()))
}

func (b brackets) HandleClose(_ *eddy.Context, reason eddy.CloseReason, _ error) { b.ends <- reason }

// TestFrames: frames of one length, however they arrive; the end inside one is told apart from the end between two.
func TestFrames(t *testing.T) {
	addr, ends := serve(t, 4)
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
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		for rest := c.send; rest != ""; {
			n := min(c.piece, len(rest))
			io.WriteString(conn, rest[:n])
			rest = rest[n:]
		}
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
			t.Errorf("%.20q in pieces of %d: %.40q, %v", c.send, c.piece, got, err)
		}
		conn.Close()
		if end := <-ends; end != c.end {
			t.Errorf("%.20q: ended with %v, want %v", c.send, end, c.end)
		}
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
