//go:build eddydebug

package eddy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// keeper is a decoder that keeps what it must not keep: the view.
type keeper struct{ views [][]byte }

func (k *keeper) Decode(ctx *Context, view []byte) (int, error) {
	i := bytes.IndexByte(view, ';')
	if i < 0 {
		return 0, nil
	}
	if n := len(k.views); n > 0 && len(bytes.Trim(k.views[n-1], "\xdd")) > 0 {
		ctx.Conn().CloseWith(CloseInternalError, errors.New("the last view is still readable"))
	}
	k.views = append(k.views, view[:i+1])
	return i + 1, nil
}

// TestInboundMemoryIsPoisoned: what a decoder was shown is overwritten as soon as it has returned, in the scratch buffer
// and in a connection's own segment.
func TestInboundMemoryIsPoisoned(t *testing.T) {
	k := new(keeper)
	st, l := newStage(t, &Server{Loops: 1, Init: func(p *Pipeline) error { return p.Add("keeper", k) }})
	a := st.connect(l)
	a.send("one;two;unfinished")
	l.Iterate()
	a.send(strings.Repeat("l", 50_000))
	l.Iterate()
	a.send("ong;last;")
	for range 3 {
		l.Iterate()
	}
	if err := a.conn.CloseError(); err != nil {
		t.Fatal(err)
	}
	if len(k.views) != 4 {
		t.Fatalf("%d messages", len(k.views))
	}
	for _, v := range k.views {
		if rest := bytes.Trim(v, "\xdd"); len(rest) > 0 {
			t.Errorf("a kept view of %d bytes still reads %.20q", len(v), rest)
		}
	}
}

// TestBorrowedMessageIsPoisoned: the same for a pipeline without a decoder.
func TestBorrowedMessageIsPoisoned(t *testing.T) {
	var kept []byte
	st, l := newStage(t, &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("app", Handle(func(_ *Context, m *buf.Bytes) error { kept = m.Bytes(); return nil }))
	}})
	st.connect(l).send("some bytes")
	l.Iterate()
	if string(kept) != strings.Repeat("\xdd", 10) {
		t.Errorf("the kept message reads %q", kept)
	}
}

// TestChangeAfterWriteIsFound: a slice that was given to Write and is changed before it has been sent ends the
// connection, and the error says so.
func TestChangeAfterWriteIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		write func(c *Conn, b []byte) error
		sent  bool
	}{
		"sent":     {func(c *Conn, b []byte) error { return c.Write(b) }, true},
		"parts":    {func(c *Conn, b []byte) error { return c.Write([][]byte{b}) }, true},
		"shared":   {func(c *Conn, b []byte) error { return c.Write(c.Buffers().Adopt(b, nil)) }, true},
		"not sent": {func(c *Conn, b []byte) error { return c.Write(b) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			srv := countedServer(nil)
			srv.Logger = slog.New(slog.NewTextHandler(&log, nil))
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.room = 10
			b := bytes.Repeat([]byte("immutable "), 1000)
			if err := c.write(a.conn, b); err != nil {
				t.Fatal(err)
			}
			l.Iterate()
			b[5000] = '!'
			if c.sent {
				a.room = 1 << 30
			} else {
				a.conn.Close(CloseNormal)
			}
			l.Iterate()
			const what = "an adopted slice of 10000 bytes was changed"
			if !strings.Contains(log.String(), what) {
				t.Errorf("log %q", log.String())
			}
			if err := a.conn.CloseError(); c.sent && (err == nil || err.Reason != CloseInternalError || !strings.Contains(err.Error(), what)) {
				t.Errorf("the connection ended with %v", err)
			}
			if n := a.conn.Buffers().Live(); n != 0 {
				t.Errorf("%d buffers are left", n)
			}
		})
	}
}

// TestReleasedBufferIsPoisoned: a counted buffer's memory is overwritten at its final release, and a write to it after
// that is found when it is used again.
func TestReleasedBufferIsPoisoned(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	c := st.connect(l).conn
	s := c.Buffers().Copy(bytes.Repeat([]byte("s"), 2000))
	kept := s.Bytes()
	write(t, c, s)
	l.Iterate()
	if string(kept) != strings.Repeat("\xdd", 2000) {
		t.Errorf("released memory reads %.20q", kept)
	}
	kept[7] = 's'
	defer func() {
		if v := recover(); v == nil || !strings.Contains(v.(string), "written at 7 after it was put back") {
			t.Errorf("panic %v", v)
		}
	}()
	c.Buffers().Get(2000)
}
