package eddy

import (
	"strconv"
	"testing"
)

// lateHandler is a handler that connections get after they were opened. One with a slice in it cannot be compared.
type lateHandler struct{ v any }

func (lateHandler) HandleRead(ctx *Context, msg any) error { ctx.FireRead(msg); return nil }

// TestLateHandlersShareTheirNode: connections that change to the same handler share what is remembered of it, as those do
// whose Init adds it; different ones do not, and only the latest few are remembered.
func TestLateHandlersShareTheirNode(t *testing.T) {
	st, l := newStage(t, echoServer())
	conns := []*Conn{st.connect(l).conn, st.connect(l).conn, st.connect(l).conn}
	add := func(i int, name string, v any) *node {
		t.Helper()
		p := &Pipeline{conn: conns[i], from: callerOnLoop}
		if err := p.Add(name, lateHandler{v}); err != nil {
			t.Fatal(err)
		}
		return p.Context(name).node
	}
	first := add(0, "late", 1)
	if n := add(1, "late", 1); n != first {
		t.Error("the same handler has two nodes")
	}
	if n := add(2, "late", 2); n == first {
		t.Error("another handler shares the node")
	}
	if n := add(2, "other", 1); n == first || n.name != "other" {
		t.Error("another name shares the node")
	}
	if a, b := add(0, "slice", []int{1}), add(1, "slice", []int{1}); a == b {
		t.Error("what cannot be compared shares the node")
	}
	for i := range lateNodes {
		add(2, "late"+strconv.Itoa(i), i+10)
	}
	p := &Pipeline{conn: conns[1], from: callerOnLoop}
	if err := p.Remove("late"); err != nil {
		t.Fatal(err)
	}
	if n := add(1, "late", 1); n == first || n.handler != first.handler {
		t.Error("more handlers are remembered than lateNodes")
	}
	for _, c := range conns {
		c.beginClose(CloseNormal, nil)
	}
	l.Iterate()
}
