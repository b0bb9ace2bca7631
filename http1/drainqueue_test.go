package http1

import (
	"net/netip"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Clients that wait in the listener's queue when the server begins to drain get their answers, and then the connection ends.
func TestDrainQueue(t *testing.T) {
	const waiting = 50
	gate := make(chan struct{})
	s := prepare(t, setup{handler: hello})
	s.srv.AcceptBatch = 1
	s.srv.Admission.Decide = func(netip.AddrPort) eddy.Decision {
		<-gate
		return eddy.DecisionAccept
	}
	s.listen()
	clients := make([]*raw, waiting)
	for i := range clients {
		clients[i] = s.dial()
		clients[i].send(keepGet)
	}
	ended := make(chan eddy.DrainReport, 1)
	ctx := testkit.Context(t)
	go func() {
		report, err := s.srv.Shutdown(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	testkit.Eventually(t, "the drain", s.srv.Draining)
	close(gate)
	for i, c := range clients {
		if _, body := c.response("GET"); body != "hello" {
			t.Fatalf("client %d got %q", i, body)
		}
		if more := c.rest(); more != "" {
			t.Errorf("more: %q", more)
		}
		_ = c.Close()
	}
	if report := testkit.Receive(t, "the end", ended); report != (eddy.DrainReport{Drained: waiting}) {
		t.Errorf("%+v", report)
	}
}
