package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLanes: light work passes heavy work that was there before it.
func TestLanes(t *testing.T) {
	gate := make(chan struct{})
	srv, group, lanes, err := server(func(lane int) {
		if lane == heavy {
			<-gate
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if lost := lanes.Stop(context.Background()); lost != 0 {
			t.Errorf("%d jobs lost", lost)
		}
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	c := try.Dial(t, try.Serve(t, srv))
	try.Talk(t, c, "heavy one\nlight two\n", "LIGHT TWO")
	close(gate)
	try.Talk(t, c, "", "HEAVY ONE")
}
