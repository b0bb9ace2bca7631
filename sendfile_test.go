package eddy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// tempFile returns an open file of n bytes and its content.
func tempFile(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>9)
	}
	name := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, data
}

// isClosed reports whether somebody closed f, and that only once: a second close of the number would hit another file.
func isClosed(f *os.File) bool {
	_, err := f.Stat()
	return errors.Is(err, os.ErrClosed)
}

// TestFileInOrder: files go out between other messages, in order and to the byte, over real sockets, larger than
// Watermarks.Max, and are closed afterwards.
func TestFileInOrder(t *testing.T) {
	const size = 16<<20 + 77 // more than the kernel takes of it
	one, data := tempFile(t, size)
	two, _ := tempFile(t, 100)
	srv := &Server{Loops: 1, Watermarks: Watermarks{Low: 1 << 10, High: 64 << 10, Max: 1 << 20}, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error {
			for _, msg := range []any{"head:", &File{File: one, Offset: 10, Length: size - 20}, ":middle:", &File{File: two, Length: 100}, ":end"} {
				if err := ctx.Write(msg); err != nil {
					return err
				}
			}
			return nil
		}))
	}}
	c := serveOne(t, srv)
	_, _ = io.WriteString(c, "go;")
	until(t, "a full queue", func() bool { return srv.Stats().Loops[0].WriteInterest == 1 })
	want := bytes.Join([][]byte{[]byte("head:"), data[10 : size-10], []byte(":middle:"), data[:100], []byte(":end")}, nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the bytes arrived changed")
	}
	until(t, "both files to be closed", func() bool { return isClosed(one) && isClosed(two) })
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of write interest", func() bool { return srv.Stats().Loops[0].WriteInterest == 0 })
}

// TestFileAccounting: a file counts for fileWindow at most and for what is left of it in the end; the queue's number is
// exact after every call, and one event sends a bounded part.
func TestFileAccounting(t *testing.T) {
	const size = 3 << 20
	f, data := tempFile(t, size)
	st, l := newStage(t, echoServer())
	a := st.connect(l)
	a.room = 100
	if err := a.conn.Write(&File{File: f, Length: size}); err != nil {
		t.Fatal(err)
	}
	if q := a.conn.QueuedBytes(); q != fileWindow {
		t.Errorf("%d bytes count from submission, want %d", q, fileWindow)
	}
	l.Iterate()
	submit(t, l, a, "tail")
	if q := a.conn.QueuedBytes(); q != fileWindow+4 {
		t.Errorf("%d bytes queued, want %d", q, fileWindow+4)
	}
	a.room = 1 << 40
	l.Iterate()
	if n := len(a.out) - 100; n != writeCallBudget/fileCalls*fileChunk {
		t.Errorf("one event sent %d bytes of a file", n)
	}
	a.room = size - len(a.out) - 1000
	for range 4 {
		l.Iterate()
	}
	if q := a.conn.QueuedBytes(); q != 1004 {
		t.Errorf("%d bytes queued in the end, want 1004", q)
	}
	if got := a.drain(t, l); got != string(data)+"tail" {
		t.Errorf("%d bytes arrived, or changed ones", len(got))
	}
	if !isClosed(f) {
		t.Error("the file is still open")
	}
}

// TestTruncatedFile: a file that is shorter than its Length ends the connection with an error that says so.
func TestTruncatedFile(t *testing.T) {
	f, _ := tempFile(t, 100)
	st, l := newStage(t, echoServer())
	a := st.connect(l)
	submit(t, l, a, &File{File: f, Length: 150})
	l.Iterate()
	a.wantEnd(t, "at the file's end", CloseInternalError)
	if err := a.conn.CloseError(); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "ends at 100, 50 bytes before") {
		t.Errorf("CloseError = %v", err)
	}
	if len(a.out) != 100 || !isClosed(f) || a.conn.QueuedBytes() != 0 {
		t.Errorf("%d bytes sent, closed %v, %d bytes counted", len(a.out), isClosed(f), a.conn.QueuedBytes())
	}
}

// TestFileIsClosedOnce: wherever a File ends, its os.File is closed exactly once.
func TestFileIsClosedOnce(t *testing.T) {
	for name, end := range map[string]func(st *stage, l *loop, a *actor, f *File){
		"connection closed": func(_ *stage, l *loop, a *actor, f *File) {
			a.room = 10
			_ = a.conn.Write(f)
			l.Iterate()
			a.conn.Close(CloseNormal)
			l.Iterate()
		},
		"write after the close": func(_ *stage, l *loop, a *actor, f *File) {
			a.conn.Close(CloseNormal)
			l.Iterate()
			if err := a.conn.Write(f); !errors.Is(err, ErrClosed) {
				t.Errorf("Write = %v", err)
			}
		},
		"closed while it waits for the loop": func(_ *stage, l *loop, a *actor, f *File) {
			onLoop := func() { a.conn.beginClose(CloseNormal, nil) }
			_ = a.conn.Post(onLoop)
			if err := a.conn.Write(f); err != nil {
				t.Errorf("Write = %v", err)
			}
			l.Iterate()
		},
		"queue full": func(_ *stage, l *loop, a *actor, f *File) {
			a.room = 0
			_ = a.conn.Write(make([]byte, defaultMaxOutbound))
			l.Iterate()
			if err := a.conn.Write(f); !errors.Is(err, ErrBackpressure) {
				t.Errorf("Write = %v", err)
			}
		},
		"bad length": func(_ *stage, l *loop, a *actor, f *File) {
			f.Length = -1
			_ = a.conn.Write(f)
			l.Iterate()
		},
		"empty": func(_ *stage, l *loop, a *actor, f *File) {
			f.Length = 0
			_ = a.conn.Write(f)
			l.Iterate()
		},
		"sent": func(_ *stage, l *loop, a *actor, f *File) {
			_ = a.conn.Write(f)
			l.Iterate()
		},
		"part of a class": func(_ *stage, l *loop, a *actor, f *File) {
			_ = a.conn.Write(new(MessageClass).Wrap(f))
			l.Iterate()
		},
	} {
		file, _ := tempFile(t, 100)
		st, l := newStage(t, echoServer())
		a := st.connect(l)
		f := &File{File: file, Length: 100}
		end(st, l, a, f)
		if !isClosed(file) || !f.released.Load() {
			t.Errorf("%s: the file is open", name)
		}
		if q := a.conn.QueuedBytes(); q != 0 && name != "queue full" {
			t.Errorf("%s: %d bytes counted", name, q)
		}
	}
}

// TestFileToDeadPeer: a peer that goes away while a file is sent ends in a close like any other, and the file is closed.
func TestFileToDeadPeer(t *testing.T) {
	f, _ := tempFile(t, 8<<20)
	ended := make(chan CloseReason, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("end", closed(ended))
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.Write(&File{File: f, Length: 8 << 20}) }))
	}}
	c := serveOne(t, srv)
	_, _ = io.WriteString(c, "go;")
	until(t, "a full queue", func() bool { return srv.Stats().Loops[0].WriteInterest == 1 })
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
	if reason := <-ended; reason != CloseIOError && reason != ClosePeerClosed {
		t.Errorf("closed with %v", reason)
	}
	until(t, "the file to be closed", func() bool { return isClosed(f) })
}

// closed tells the reason of the close.
type closed chan<- CloseReason

func (c closed) HandleClose(_ *Context, reason CloseReason, _ error) { c <- reason }
