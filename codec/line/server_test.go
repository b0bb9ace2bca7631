package line_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ending is what a connection's pipeline was told at its end.
type ending struct {
	reason eddy.CloseReason
	err    error
}

// watcher reports the end of each connection; its room is more than any test needs, so it never blocks the loop.
type watcher chan ending

func (w watcher) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	w <- ending{reason, err}
}

// start runs a server that answers every line in angle brackets and returns its address and the ends of its connections.
func start(t *testing.T, max int, opts ...eddy.AddOption) (addr string, ends watcher) {
	t.Helper()
	ends = make(watcher, 16)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("line", line.Codec(max))
		p.Add("ends", ends)
		return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write(fmt.Appendf(nil, "<%s>\n", l.Text()))
		}), opts...)
	}}
	addr = enginetest.Serve(t, srv)
	t.Cleanup(func() {
		if _, err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return addr, ends
}

// TestLinesOverTCP sends the same lines byte by byte, in one write and in pieces, to a handler on the loop and to one on a pool.
func TestLinesOverTCP(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "answers", Workers: 2, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Shutdown(context.Background()) })
	var want []string
	var stream strings.Builder
	for i := range 50 {
		want = append(want, fmt.Sprintf("<line %d>", i))
		stream.WriteString(fmt.Sprintf("line %d", i) + []string{"\n", "\r\n"}[i%2])
	}
	for name, opts := range map[string][]eddy.AddOption{"loop": nil, "pool": {eddy.On(pool)}} {
		addr, _ := start(t, 64, opts...)
		for _, piece := range []int{1, 5, stream.Len()} {
			t.Run(fmt.Sprintf("%s in pieces of %d", name, piece), func(t *testing.T) {
				c := enginetest.Dial(t, addr)
				for rest := []byte(stream.String()); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
					if _, err := c.Write(rest[:min(piece, len(rest))]); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for s := bufio.NewScanner(c); len(got) < len(want) && s.Scan(); {
					got = append(got, s.Text())
				}
				if !slices.Equal(got, want) {
					t.Errorf("answers %q, want %q", got, want)
				}
			})
		}
	}
}

// TestTooLongLineEndsTheConnection shows the reason and the error of a refused line, after the lines before it were answered.
func TestTooLongLineEndsTheConnection(t *testing.T) {
	addr, ends := start(t, 8)
	c := enginetest.Dial(t, addr)
	c.Send("ok\n" + strings.Repeat("x", 100))
	c.Expect("<ok>\n")
	c.ExpectEnd()
	c.Close()
	end := testkit.Receive(t, "the end", ends)
	var tooLong *line.TooLongError
	if end.reason != eddy.CloseFrameTooLarge || !errors.As(end.err, &tooLong) || tooLong.Max != 8 || tooLong.Seen < 9 {
		t.Errorf("ended with %v: %v", end.reason, end.err)
	}
}

// TestUnfinishedLineIsIncomplete shows that a peer which leaves in the middle of a line is told apart from one that leaves between lines.
func TestUnfinishedLineIsIncomplete(t *testing.T) {
	addr, ends := start(t, 8)
	for sent, want := range map[string]eddy.CloseReason{"ok\n": eddy.ClosePeerClosed, "ok\nhal": eddy.CloseIncompleteRequest} {
		c := enginetest.Dial(t, addr)
		c.Send(sent)
		c.Expect("<ok>\n")
		c.Close()
		if end := testkit.Receive(t, "the end", ends); end.reason != want {
			t.Errorf("after %q the connection ended with %v, want %v", sent, end.reason, want)
		}
	}
}
