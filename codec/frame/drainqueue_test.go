package frame

import (
	"context"
	"net/netip"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestDrainQueue: clients that wait in the listener's queue when the server begins to drain are told GOAWAY, and each request
// that they have sent is answered, or refused as not executed.
func TestDrainQueue(t *testing.T) {
	const waiting = 50
	gate := make(chan struct{})
	r := newRig(t, &set{srv: eddy.Server{AcceptBatch: 1, Admission: eddy.Admission{Decide: func(netip.AddrPort) eddy.Decision {
		<-gate
		return eddy.DecisionAccept
	}}}})
	clients := make([]*raw, waiting)
	for i := range clients {
		clients[i] = r.dial()
		clients[i].ask(1, 0, "")
	}
	done := make(chan eddy.DrainReport)
	go func() {
		report, err := r.srv.Shutdown(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- report
	}()
	testkit.Eventually(t, "the drain", r.srv.Draining)
	close(gate)
	for i, c := range clients {
		for range 2 {
			switch got := c.read(); got {
			case answer{0, 65, "0 the server is draining"}, answer{1, 0, ""}, answer{1, 8, "0 the server is draining"}:
			default:
				t.Errorf("client %d got %v", i, got)
			}
		}
		c.expectEnd()
	}
	if report := testkit.Receive(t, "the end of the drain", done); report != (eddy.DrainReport{Drained: waiting}) {
		t.Errorf("%+v", report)
	}
}
