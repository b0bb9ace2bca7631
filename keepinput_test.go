package eddy

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
)

// squirrel keeps what it reads until it is told to let it go.
type squirrel struct {
	ctx  *Context
	kept int
}

func (h *squirrel) HandleRead(ctx *Context, msg any) error {
	h.ctx = ctx
	if n := msg.(*buf.Bytes).Len(); n > 1 {
		h.kept += n
		ctx.KeepInput(n)
		return nil
	}
	h.letGo(ctx)
	return nil
}

func (h *squirrel) letGo(ctx *Context) {
	ctx.KeepInput(-h.kept)
	h.kept = 0
}

func (h *squirrel) HandleClose(ctx *Context, _ CloseReason, _ error) { h.letGo(ctx) }

// TestKeptInputCounts: what a handler keeps of the input counts until it lets it go, inside a batch or outside one, or the
// connection ends; until then the connection is not idle.
func TestKeptInputCounts(t *testing.T) {
	srv := answering(0)
	var h *squirrel // of the last connection
	srv.Init = func(p *Pipeline) error {
		h = new(squirrel)
		p.Add("cut", &cut{})
		return p.Add("squirrel", h)
	}
	st, l := newStage(t, srv)
	a, b := st.connect(l), st.connect(l)
	a.send(strings.Repeat("a", 999) + ";")
	st.elapse(pressureTick)
	st.expectMemory("a message is kept", 0, 999)
	a.send("two;partial")
	st.elapse(pressureTick)
	st.expectMemory("another one, and a part of a third", 0, 999+3+7)
	if a.conn.idle() {
		t.Error("a connection that keeps input is idle")
	}
	b.send("xyz;")
	st.elapse(pressureTick)
	st.expectMemory("one of another connection", 0, 1009+3)
	if err := b.conn.Post(func() { h.ctx.KeepInput(-2); h.kept -= 2 }); err != nil {
		t.Fatal(err)
	}
	st.elapse(pressureTick)
	st.expectMemory("a part of it is let go outside a batch", 0, 1009+1)
	a.send(";x;")
	st.elapse(pressureTick)
	st.expectMemory("all is let go", 0, 1)
	a.send("more;")
	st.elapse(pressureTick)
	a.conn.Close(CloseNormal)
	b.eof = true
	st.elapse(2 * pressureTick)
	st.expectMemory("one is closed, and the other half", 0, 1)
	b.conn.Close(CloseNormal)
	st.elapse(pressureTick)
	st.expectMemory("both are closed", 0, 0)
	h.ctx.KeepInput(5)
	st.elapse(pressureTick)
	st.expectMemory("after the close", 0, 0)
}

// TestKeptInputIsBounded: above the budget the connection that keeps most closes.
func TestKeptInputIsBounded(t *testing.T) {
	srv := answering(100_000)
	srv.Init = func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("squirrel", &squirrel{})
	}
	st, l := newStage(t, srv)
	var all []*actor
	for i := range 5 {
		a := st.connect(l)
		a.send(strings.Repeat("a", 19_000+1000*i) + ";")
		all = append(all, a)
		l.Iterate()
	}
	if m := srv.endpoint.budget.snapshot(); !m.Pressure || m.Inbound != 105_000 {
		t.Fatalf("%+v", m)
	}
	st.elapse(1100 * time.Millisecond)
	if m := srv.endpoint.budget.snapshot(); all[4].closed != 1 || m.Inbound != 82_000 {
		t.Errorf("the one that kept most was closed %d times; %+v", all[4].closed, m)
	}
}
