package line_test

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestResponseLimit: responses of up to the limit are sent as lines, whatever type they have; a longer one, and one that
// is not a single line, is refused with an error that names the limit, and nothing of it is sent.
func TestResponseLimit(t *testing.T) {
	for _, c := range []struct{ max, limit int }{{0, line.DefaultMax}, {16, 16}} {
		longest := strings.Repeat("y", c.limit)
		refused := make(chan error, 8)
		srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
			p.Add("line", line.Codec(0))
			p.Add("lines", line.EncodeMax(c.max))
			return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				for _, msg := range []any{longest, []byte(longest), buf.Own([]byte(longest)), l, ""} {
					if err := ctx.Write(msg); err != nil {
						return err
					}
				}
				for _, msg := range []any{longest + "z", []byte(longest + "z"), "a\nb"} {
					refused <- ctx.Write(msg)
				}
				return ctx.Write("end")
			}))
		}}
		conn := enginetest.Dial(t, enginetest.Serve(t, srv))
		conn.Send("hello\n")
		in := bufio.NewReader(conn)
		for _, want := range []string{longest, longest, longest, "hello", "", "end"} {
			if got, err := in.ReadString('\n'); err != nil || got != want+"\n" {
				t.Fatalf("limit %d: read %q, %v, want %q", c.limit, got, err, want)
			}
		}
		for range 2 {
			var long *line.TooLongError
			if err := testkit.Receive(t, "a refusal", refused); !errors.As(err, &long) || long.Max != c.limit || long.Seen != c.limit+1 {
				t.Errorf("limit %d: a longer line: %v", c.limit, err)
			}
		}
		if err := testkit.Receive(t, "a refusal", refused); err == nil || !strings.Contains(err.Error(), "line feed at 1") {
			t.Errorf("two lines in one message: %v", err)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResponseLimitFromElsewhere: a response that is too long and was submitted from another goroutine ends the
// connection, since nobody else could tell the client.
func TestResponseLimitFromElsewhere(t *testing.T) {
	ends := make(watcher, 1)
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("line", line.Codec(0))
		p.Add("lines", line.EncodeMax(8))
		p.Add("ends", ends)
		return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, _ *line.Line) error { conns <- ctx.Conn(); return nil }))
	}}
	c := enginetest.Dial(t, enginetest.Serve(t, srv))
	c.Send("hello\n")
	if err := testkit.Receive(t, "a connection", conns).Write("much too long"); err != nil {
		t.Fatal(err)
	}
	c.ExpectEnd()
	c.Close()
	if e := testkit.Receive(t, "the end", ends); e.reason != eddy.CloseFrameTooLarge {
		t.Errorf("closed with %v, %v", e.reason, e.err)
	}
}
