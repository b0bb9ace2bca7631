package rpc

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// parked reports whether Client.Close waits in a WaitGroup, in the function of that name.
func parked(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "sync.(*WaitGroup).Wait") && strings.Contains(stack, "rpc.(*Client).Close") && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}

// TestCloseWaitsForLinks: when Close returns, the connections have ended and with them the goroutines that keep them,
// also on loops that go on.
func TestCloseWaitsForLinks(t *testing.T) {
	group := &eddy.Group{Loops: 1, Logger: quiet}
	if err := group.Start(); err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cl := client(t, ClientOptions{Group: group}, newStub(t, echoes).addr())
	testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 })
	w := cl.routes.Load().all[0]
	held, release := make(chan struct{}), make(chan struct{})
	if err := group.Loop(0).Post(func() { close(held); <-release }); err != nil {
		t.Fatal(err)
	}
	<-held // the loop cannot end the connection
	open := make(chan bool, 1)
	go func() {
		_ = cl.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		open <- w.state != wireClosed
	}()
	testkit.Eventually(t, "Close to wait or to return", func() bool { return len(open) > 0 || parked("Close") })
	close(release)
	if testkit.Receive(t, "the end of Close", open) {
		t.Error("a connection is still open")
	}
}

// TestCallbackOfAClosingClient: a function of a Future that still runs may call, and Close waits for it.
func TestCallbackOfAClosingClient(t *testing.T) {
	cl := client(t, ClientOptions{}, newStub(t, echoes).addr())
	f := InvokeAsync[[]byte](t.Context(), cl, testKey, "Echo", text(""))
	if _, err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the call", func() bool { return cl.Stats().Active == 0 })
	inside, release, told, closed := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	f.Then(func(*[]byte, error) {
		close(inside)
		<-release
		_, err := Invoke[[]byte](context.Background(), cl, Key{Interface: "another"}, "Echo", text(""))
		told <- err
	})
	<-inside
	go func() { closed <- cl.Close() }()
	testkit.Eventually(t, "Close to wait for the pools", func() bool { return parked("pools.(*Set).End") })
	close(release)
	if err := testkit.Receive(t, "the call's end", told); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := testkit.Receive(t, "the end of Close", closed); err != nil {
		t.Error(err)
	}
}
