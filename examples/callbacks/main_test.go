package main

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/internal/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is shout that also reports the ends of its connections.
type watched struct {
	shout
	ended chan error
}

func (w watched) OnClose(_ *eddy.Conn, err error) { w.ended <- err }

// TestCallbacks: the three callbacks are called, and OnTraffic sees bytes again that it has not used.
func TestCallbacks(t *testing.T) {
	w := watched{ended: make(chan error, 1)}
	srv := server(w)
	c := try.Dial(t, try.Serve(t, srv))
	try.Talk(t, c, "", "say something")
	try.Talk(t, c, "hello\nhalf ", "HELLO")
	try.Talk(t, c, "a line\n", "HALF A LINE")
	try.Talk(t, c, "bye\n", "BYE")
	_ = c.Close()
	select {
	case err := <-w.ended:
		if closed := enginetest.Stats(t, srv).Closed; closed[eddy.CloseNormal] != 1 {
			t.Errorf("%v, closes %v", err, closed)
		}
	case <-time.After(time.Minute):
		t.Fatal("OnClose was not called")
	}
}
