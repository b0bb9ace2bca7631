package netsys

import (
	"testing"

	"github.com/go-eddy/eddy/internal/poll/polltest"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// everySystem runs a test with both ways in which readers wait: for readiness, and with a block at hand.
func everySystem(t *testing.T, test func(t *testing.T, s *System)) {
	for name, blocking := range map[string]bool{"readiness": false, "blocking": true} {
		t.Run(name, func(t *testing.T) {
			s := New()
			s.blocking = blocking
			test(t, s)
		})
	}
}

// TestConformance: the poller behaves like those of package poll.
func TestConformance(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		polltest.Run(t, polltest.Kernel{
			Sockets: s.NewSockets,
			Poller:  func() (sys.Poller, error) { return s.NewPoller(), nil },
		})
	})
}

// TestEndIsToldOnce: the end of a connection without interest is reported once, whatever happens afterwards.
func TestEndIsToldOnce(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	p := s.NewPoller()
	defer p.Close()
	must(t, p.Add(fd, sys.None, 1))
	must(t, client.SetLinger(0))
	must(t, client.Close())
	events := make([]sys.Event, 4)
	n, err := p.Wait(events, testkit.Patience)
	if n != 1 || err != nil || events[0].Ready != sys.Hangup|sys.Failed {
		t.Fatalf("Wait = %d, %v, %+v", n, err, events[0])
	}
	c := s.connOf(t, fd)
	c.mu.Lock()
	c.update() // as a writer does that fails, too
	c.mu.Unlock()
	if n, err := p.Wait(events, 0); n != 0 || err != nil {
		t.Fatalf("told again: %d, %v", n, err)
	}
	must(t, p.Modify(fd, sys.None, 2))
	if n, err := p.Wait(events, 0); n != 1 || err != nil || events[0].Token != 2 {
		t.Fatalf("after Modify: %d, %v", n, err)
	}
}

// TestClosedPollersAreForgotten: a descriptor that moves from poller to poller does not keep them.
func TestClosedPollersAreForgotten(t *testing.T) {
	s := New()
	fd, _ := connected(t, s.NewSockets())
	for range 3 {
		p := s.NewPoller()
		must(t, p.Add(fd, sys.Read, 1))
		must(t, p.Close())
	}
	if r := s.connOf(t, fd).regs; r.next != nil {
		t.Error("more than the last one is known")
	}
}

// TestCloseWithoutRemove: the poller reports nothing more about a closed descriptor.
func TestCloseWithoutRemove(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	p := s.NewPoller()
	defer p.Close()
	must(t, p.Add(fd, sys.Read, 1))
	must(t, client.SetLinger(0))
	must(t, client.Close())
	events := make([]sys.Event, 4)
	for range 2 {
		if n, err := p.Wait(events, testkit.Patience); n != 1 || err != nil {
			t.Fatalf("Wait = %d, %v", n, err)
		}
	}
	must(t, sock.Close(fd))
	if n, err := p.Wait(events, 0); n != 0 || err != nil {
		t.Fatalf("after Close: %d, %v, %+v", n, err, events[0])
	}
}
