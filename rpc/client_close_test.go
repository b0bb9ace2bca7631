package rpc

import (
	"runtime"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// parked reports whether a goroutine waits in a WaitGroup for Client.Close.
func parked() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "sync.(*WaitGroup).Wait") && strings.Contains(stack, "rpc.(*Client).Close") {
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
	w := cl.routes.Load().All[0]
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
	testkit.Eventually(t, "Close to wait or to return", func() bool { return len(open) > 0 || parked() })
	close(release)
	if testkit.Receive(t, "the end of Close", open) {
		t.Error("a connection is still open")
	}
}
