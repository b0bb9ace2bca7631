package eddy

import (
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// framer is a handler in front that takes part in writing: it puts a byte around what it is given, in the way of a codec.
type framer struct {
	keep  [2 * scratchSize]byte
	parts bool // only a byte in front, as a part of its own
}

func (f *framer) HandleWrite(ctx *Context, msg any) error {
	if f.parts {
		return ctx.WriteParts([]byte("<"), msg.(*buf.Bytes).Bytes())
	}
	p := append(append(f.keep[:0], '<'), msg.(*buf.Bytes).Bytes()...)
	return ctx.WriteBytes(append(p, '>'))
}

// TestWritingToWritersAllocatesNothing: messages of the loop's handlers cost no allocation when others in front take part
// in writing, and their memory is the caller's again.
func TestWritingToWritersAllocatesNothing(t *testing.T) {
	var app *Context
	st, l := newStage(t, &Server{Init: func(p *Pipeline) error {
		p.Add("outer", &framer{})
		p.Add("inner", &framer{})
		return p.Add("app", Handle(func(ctx *Context, _ *buf.Bytes) error { app = ctx; return nil }))
	}})
	a := st.connect(l)
	a.send("x")
	l.Iterate()
	c := a.conn
	queue := func() string {
		defer func() { c.queued.Add(-int64(c.out.Head.Len())); l.mem.segments.Put(c.out.Pop()) }()
		return string(c.out.Head.Bytes())
	}
	for name, write := range map[string]func(p []byte) error{
		"WriteBytes": app.WriteBytes,
		"WriteParts": func(p []byte) error { return app.WriteParts(p[:1], p[1:]) },
	} {
		p := []byte("message")
		if err := write(p); err != nil {
			t.Fatal(err)
		}
		clear(p)
		if got := queue(); got != "<<message>>" {
			t.Errorf("%s: %q is queued", name, got)
		}
		n := testing.AllocsPerRun(100, func() {
			_ = write(p)
			c.queued.Add(-int64(c.out.Head.Len()))
			l.mem.segments.Put(c.out.Pop())
		})
		if n > 0 {
			t.Errorf("%s: %v allocations per message", name, n)
		}
	}
	for ctx := c.head; ctx != app; ctx = ctx.next.Load() {
		ctx.node.handler.(*framer).parts = true
	}
	if app.WriteParts([]byte("par"), []byte("ts")) != nil || queue() != "<<parts" {
		t.Error("a message of two parts that becomes one of two parts is changed on its way")
	}
	if l.out.joint == nil || len(l.out.carriers) != 2 {
		t.Errorf("spare memory: %v, %d messages, want two", l.out.joint != nil, len(l.out.carriers))
	}
	if err := app.WriteParts(nil, make([]byte, scratchSize+1)); err == nil && cap(l.out.joint) > scratchSize {
		t.Errorf("%d bytes are kept", cap(l.out.joint))
	}
	c.beginClose(CloseNormal, nil)
	l.Iterate()
}
