package rpc

import (
	"context"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/balance"
)

// names answers every call with its own name.
func names(name string) func(*stubConn) {
	return func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if q.op == 2 {
				c.answer(q.id, 0, name)
			}
		}
	}
}

// TestRoundRobin: the addresses take turns, and so do the connections of each, however many they are.
func TestRoundRobin(t *testing.T) {
	a, b := newStub(t, names("a")), newStub(t, names("b"))
	cl := client(t, ClientOptions{ConnsPerAddr: 2}, a.addr(), b.addr())
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 4 })
	got := map[string]int{}
	for range 100 {
		name, err := invoke(context.Background(), cl, "Who", "")
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
	}
	if got["a"] != 50 || got["b"] != 50 {
		t.Errorf("%v", got)
	}
}

// TestLeastRequests: calls avoid a connection on which others wait.
func TestLeastRequests(t *testing.T) {
	hangs := make(chan struct{}, 100)
	slow := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if q.method == "Who" {
				hangs <- struct{}{}
			}
		}
	})
	fast := newStub(t, names("fast"))
	cl := client(t, ClientOptions{Balance: balance.Options{Policy: balance.LeastRequests}}, slow.addr(), fast.addr())
	testkit.Eventually(t, "the connections", func() bool { return cl.Stats().Connections == 2 })
	for held := false; !held; { // the first that hangs
		f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Who", text(""))
		select {
		case <-f.Done():
		case <-hangs:
			held = true
		}
	}
	testkit.Eventually(t, "one call that hangs", func() bool {
		n := 0
		for _, w := range cl.routes.Load().all {
			n += int(w.load.Load())
		}
		return n == 1
	})
	for range 50 {
		if name, err := invoke(context.Background(), cl, "Who", ""); name != "fast" || err != nil {
			t.Fatalf("%q, %v", name, err)
		}
	}
}
