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

// A connection that has not sent a request yet when the drain begins has a moment for it; one that has been answered before
// ends at once.
func TestDrainAwaitsTheFirstRequest(t *testing.T) {
	s := startWith(t, setup{handler: hello, clock: true})
	used, late, silent := s.dial(), s.dial(), s.dial()
	used.send(keepGet)
	used.response("GET")
	testkit.Eventually(t, "all of them", func() bool { return s.srv.Stats().Active == 3 })
	ended := make(chan eddy.DrainReport, 1)
	ctx := testkit.Context(t)
	go func() {
		report, err := s.srv.Shutdown(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	testkit.Eventually(t, "all to be told", func() bool { return s.drained.Load() == 3 })
	if more := used.rest(); more != "" {
		t.Errorf("the one that was answered before got %q", more)
	}
	late.send(keepGet)
	if resp, body := late.response("GET"); body != "hello" || !resp.Close {
		t.Errorf("the late request got %q, close=%v", body, resp.Close)
	}
	if more := late.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	s.clock.Advance(firstGrace + firstGrace/10)
	if more := silent.rest(); more != "" {
		t.Errorf("the silent one got %q", more)
	}
	for _, c := range []*raw{used, late, silent} {
		_ = c.Close()
	}
	if report := testkit.Receive(t, "the end", ended); report != (eddy.DrainReport{Drained: 3}) {
		t.Errorf("%+v", report)
	}
}
