package zookeeper

import (
	"log/slog"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// TestReplacedSessionEnds: a session that is over ends when another one takes its place, also while the registry is being closed.
func TestReplacedSessionEnds(t *testing.T) {
	k := keep.New(name, slog.New(slog.DiscardHandler))
	l := link{o: Options{Servers: []string{"127.0.0.1:1"}, Session: testkit.Patience}, keep: k} // nobody listens there
	first := l.connected()
	first.expiry.Reset(0)
	<-first.over
	k.Close()
	second := l.connected()
	if second == first {
		t.Error("the session is over, and used")
	}
	l.close()
	for which, s := range map[string]*session{"first": first, "second": second} {
		s.mu.Lock()
		if !s.closed || s.dials.ctx.Err() == nil {
			t.Errorf("the %s session goes on", which)
		}
		s.mu.Unlock()
	}
}
