package netsys

import (
	"testing"

	"github.com/go-eddy/eddy/internal/poll/polltest"
	"github.com/go-eddy/eddy/internal/sys"
)

// everySystem runs a test with both ways in which readers wait: for readiness, and with a block in their hands.
func everySystem(t *testing.T, test func(t *testing.T, s *System)) {
	for name, blocking := range map[string]bool{"readiness": false, "blocking": true} {
		t.Run(name, func(t *testing.T) {
			s := New()
			s.blocking = blocking
			test(t, s)
		})
	}
}

// TestConformance: the poller is one like those of package poll.
func TestConformance(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		polltest.Run(t, polltest.Kernel{
			Sockets: s.NewSockets,
			Poller:  func() (sys.Poller, error) { return s.NewPoller(), nil },
		})
	})
}
